"""Student's t for means of few numbers, in closed form for integer degrees of freedom: intervals, tests, and Holm's correction."""
import math
import statistics


def within(t, freedom):
    """P(|T| <= t) for Student's T: Abramowitz and Stegun 26.7.3 and 26.7.4."""
    angle = math.atan(t / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2 == 1
    term, total = (cosine, 0.0) if odd else (1.0, 0.0)
    for k in range(2 if odd else 1, freedom, 2):
        total += term
        term *= k / (k + 1) * cosine * cosine
    return 2 / math.pi * (angle + sine * total) if odd else sine * total


def quantile(probability, freedom):
    """Returns t with P(T <= t) = probability, for a probability of at least 0.5."""
    low, high = 0.0, 1e6
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if (1 + within(middle, freedom)) / 2 < probability else (low, middle)
    return low


def deviation(values):
    """Returns the sample standard deviation (n - 1); None for fewer than two values."""
    return statistics.stdev(values) if len(values) > 1 else None


def interval(values):
    """Returns the two-sided 95 % interval of the mean and its one-sided upper 95 % bound; None for fewer than two values."""
    if len(values) < 2:
        return None
    mean, error = statistics.fmean(values), statistics.stdev(values) / math.sqrt(len(values))
    half = quantile(0.975, len(values) - 1) * error
    return mean - half, mean + half, mean + quantile(0.95, len(values) - 1) * error


def p_below(values, bound):
    """Returns the p-value of the one-sided test whether the mean is below `bound`: the probability of such values if it is not."""
    if len(values) < 2:
        return 1.0
    distance, error = bound - statistics.fmean(values), statistics.stdev(values) / math.sqrt(len(values))
    if error == 0:
        return 0.0 if distance > 0 else 1.0
    t = distance / error
    return (1 - math.copysign(within(abs(t), len(values) - 1), t)) / 2


def p_above(values, bound):
    return p_below([-value for value in values], -bound)


def p_different(values, bound=0.0):
    """Returns the p-value of the two-sided test whether the mean differs from `bound`."""
    return min(1.0, 2 * min(p_below(values, bound), p_above(values, bound)))


def p_equivalent(values, margin):
    """Returns the p-value of two one-sided tests (TOST) whether the mean lies within -margin and +margin."""
    return max(p_below(values, margin), p_above(values, -margin))


def holm(values):
    """Returns the p-values of a family of tests, each adjusted by Holm's method, in the order given."""
    adjusted, largest = [0.0] * len(values), 0.0
    for place, index in enumerate(sorted(range(len(values)), key=lambda i: values[i])):
        largest = max(largest, min(1.0, values[index] * (len(values) - place)))
        adjusted[index] = largest
    return adjusted
