"""Makes speech for lstm_ctc.py: what people tell a census taker, spoken by espeak-ng, as spectrograms.

  apt-get install espeak-ng
  python make_speech.py --count 2200 --out speech.pt

As in the recordings of AN4, people spell their names, and say numbers and dates. Voice, speed and pitch differ from utterance
to utterance, and noise is added. The file is a function of `--seed`, `--count` and the version of espeak-ng.
"""
import argparse
import concurrent.futures
import random
import subprocess
import sys

import torch

NAMES = ["alice", "brown", "carter", "dixon", "evans", "frank", "gomez", "harvey", "irving", "jackson", "kelly", "lopez", "murphy",
         "nguyen", "owens", "parker", "quinn", "rivera", "smith", "taylor", "upton", "vazquez", "walker", "xavier", "young", "zimmer"]
MONTHS = ["january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december"]
DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
ORDINALS = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh", "twelfth"]
COMMANDS = ["yes", "no", "go", "stop", "help", "repeat", "start", "enter", "erase"]
VOICES = [f"en-us+{variant}" for variant in ("m1", "m2", "m3", "m4", "m5", "m6", "m7", "f1", "f2", "f3", "f4", "f5")]
BANDS = 40
RATE = 22050  # of espeak-ng
WINDOW, HOP = 551, 220  # 25 ms and 10 ms
FRAMES = 3  # of the spectrogram that become one of the model's, which is 30 ms


def sentence(generator):
    """A text in lower case, whose letters stand alone if they are spelled."""
    kind = generator.randrange(5)
    if kind == 0:
        return " ".join(generator.choice(NAMES))
    if kind == 1:
        return " ".join(generator.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(generator.randint(3, 7)))
    if kind == 2:
        return " ".join(generator.choice(DIGITS) for _ in range(generator.randint(3, 7)))
    if kind == 3:
        return f"{generator.choice(MONTHS)} {generator.choice(ORDINALS)}"
    return " ".join(generator.choice(COMMANDS) for _ in range(generator.randint(1, 3)))


def spoken(text, generator):
    """The command that speaks the text: a letter in upper case is said by its name."""
    words = " ".join(word.upper() if len(word) == 1 else word for word in text.split())
    return ["espeak-ng", "--stdout", "-v", generator.choice(VOICES), "-s", str(generator.randint(130, 190)),
            "-p", str(generator.randint(25, 75)), words]


def waveform(command):
    """Samples from -1 to 1. The header is 44 bytes, and says no length, because espeak-ng writes into a pipe."""
    wave = subprocess.run(command, capture_output=True, check=True).stdout
    if wave[:4] != b"RIFF" or int.from_bytes(wave[24:28], "little") != RATE:
        raise ValueError(f"{' '.join(command)}: gave no sound of {RATE} samples a second")
    return torch.frombuffer(bytearray(wave[44:]), dtype=torch.int16).float() / 32768


def mel_bands():
    """Triangles over the frequencies of a spectrum (bands x frequencies), evenly wide on the scale of pitches."""
    def mel(hertz):
        return 2595 * torch.log10(1 + hertz / 700)
    frequencies = mel(torch.linspace(0, RATE / 2, WINDOW // 2 + 1))
    corners = torch.linspace(mel(torch.tensor(100.0)).item(), mel(torch.tensor(8000.0)).item(), BANDS + 2)
    rise = (frequencies - corners[:-2, None]) / (corners[1:-1] - corners[:-2])[:, None]
    fall = (corners[2:, None] - frequencies) / (corners[2:] - corners[1:-1])[:, None]
    return torch.minimum(rise, fall).clamp(min=0)


def spectrogram(wave, bands, noise):
    """The logarithms of the energies in the bands (frames x FRAMES * BANDS), with mean 0 and deviation 1 in each band."""
    wave = wave + noise * torch.randn(wave.shape, generator=torch.Generator().manual_seed(len(wave)))
    spectrum = torch.stft(wave, WINDOW, HOP, window=torch.hann_window(WINDOW), return_complex=True).abs().square()
    logs = torch.log(bands @ spectrum + 1e-6).T
    logs = (logs - logs.mean(0)) / logs.std(0)
    return logs[: len(logs) // FRAMES * FRAMES].reshape(-1, FRAMES * BANDS)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="speech.pt", help="the file")
    parser.add_argument("--count", type=int, default=2200, help="utterances")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--noise", type=float, default=0.005, help="its deviation, where the loudest sound is 1")
    return parser.parse_args()


def main():
    options = arguments()
    generator = random.Random(options.seed)
    texts = [sentence(generator) for _ in range(options.count)]
    commands = [spoken(text, generator) for text in texts]
    bands = mel_bands()
    try:
        with concurrent.futures.ThreadPoolExecutor() as pool:
            spectra = [spectrogram(wave, bands, options.noise) for wave in pool.map(waveform, commands)]
    except FileNotFoundError:
        sys.exit("found no espeak-ng: apt-get install espeak-ng")
    torch.save({"texts": texts, "spectra": [spectrum.half() for spectrum in spectra]}, options.out)
    print(f"{options.count} utterances, {sum(map(len, spectra)) * FRAMES * HOP / RATE / 60:.1f} minutes, in {options.out}")


if __name__ == "__main__":
    main()
