"""The keys of a job and of those who attack it: folders as `tern keys make` writes them, with what an attacker has."""
import pathlib
import subprocess

Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def raw(text):
    """Returns the bytes of a key that is written in Z85 (ZeroMQ RFC 32)."""
    values = []
    for at in range(0, len(text), 5):
        number = 0
        for letter in text[at:at + 5]:
            number = 85 * number + Z85.index(letter)
        values.append(number.to_bytes(4, "big"))
    return b"".join(values)


def make(bin_folder, folder, job, *settings):
    words = [bin_folder / "tern", "keys", "make", folder, "--job", job]
    for setting in settings:
        words += ["--set", setting]
    subprocess.run([str(word) for word in words], check=True, capture_output=True)
    return Keys(folder)


def all_secrets(folder):
    """Returns the secrets in all folders with keys below this one, by file."""
    return {str(path.relative_to(folder)): path.read_text()[:40] for path in folder.rglob("*.secret")}


class Keys:
    """A folder with keys."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    def public(self):
        """Returns the public keys by daemon: {"worker 1": KEY}."""
        return dict(line.split(" = ") for line in (self.folder / "peers").read_text().splitlines() if " = " in line)

    def secret(self, name):
        return (self.folder / f"{name.replace(' ', '.')}.secret").read_text()[:40]

    def secrets(self):
        return {path.name: path.read_text()[:40] for path in self.folder.glob("*.secret")}

    def settings(self):
        return ["security=curve", f"keys.dir={self.folder}"]

    def copy_for(self, folder, name, owner, keys=None):
        """Makes a folder for somebody who claims to be the daemon `name` of this job, and has the key that `keys` (these,
        if None) has of `owner`. Returns its Keys."""
        keys = keys or self
        folder.mkdir(mode=0o700, parents=True)
        lines = {other: key for other, key in self.public().items() if other.startswith("shard")}
        lines[name] = keys.public()[owner]
        (folder / "peers").write_text("".join(f"{other} = {key}\n" for other, key in lines.items()))
        path = folder / f"{name.replace(' ', '.')}.secret"
        path.touch(mode=0o600)
        path.write_text(keys.secret(owner) + "\n")
        return Keys(folder)

    def replace(self, name, keys):
        """Gives the daemon `name` the key that `keys` has for it, and forgets the one that it had."""
        lines = {**self.public(), name: keys.public()[name]}
        (self.folder / "peers").write_text("".join(f"{other} = {key}\n" for other, key in lines.items()))
        (self.folder / f"{name.replace(' ', '.')}.secret").write_text(keys.secret(name) + "\n")
