"""Images for short jobs, as a function of a seed."""
import random
import struct

SIDE = 28


def write_images(folder, stem, count, seed):
    """Writes images that a network can learn: a bright square in noise, whose position is the label."""
    numbers = random.Random(seed)
    pixels = bytearray()
    for i in range(count):
        image = bytearray(numbers.randrange(64) for _ in range(SIDE * SIDE))
        top, left = 3 + 12 * (i % 10 // 5), 1 + 5 * (i % 5)
        for y in range(top, top + 8):
            image[y * SIDE + left:y * SIDE + left + 5] = bytes(numbers.randrange(192, 256) for _ in range(5))
        pixels += image
    (folder / f"{stem}-images-idx3-ubyte").write_bytes(struct.pack(">4I", 0x803, count, SIDE, SIDE) + pixels)
    (folder / f"{stem}-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, count) + bytes(i % 10 for i in range(count)))
