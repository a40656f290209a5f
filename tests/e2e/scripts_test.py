"""Runs scripts where something is missing or ends them, with programs that only write down their arguments.

  scripts_test.py SOURCE_DIR
"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE = pathlib.Path(sys.argv.pop(1)).resolve()
RECORDER = """#!/bin/sh
echo "${0##*/} $*" >>"$CALLS"
"""


class Scripts(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory(prefix="tern_scripts.")
        self.addCleanup(kept.cleanup)
        self.folder = pathlib.Path(kept.name)
        self.programs = self.folder / "programs"
        self.programs.mkdir()
        # A tree without git, whose scripts may be replaced.
        self.tree = self.folder / "tree"
        shutil.copytree(SOURCE / "scripts", self.tree / "scripts")
        self.environment = {**os.environ, "PATH": f"{self.programs}:{os.environ['PATH']}", "CALLS": str(self.folder / "calls"),
                            "GIT_CEILING_DIRECTORIES": str(self.folder)}

    def write(self, path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def start(self, script, *words, **more):
        return subprocess.Popen([self.tree / "scripts" / script, *words], env={**self.environment, **more}, text=True, cwd=self.folder,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)

    def run_script(self, script, *words, code, **more):
        process = self.start(script, *words, **more)
        said, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, code, said)
        return said

    def calls(self):
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def test_an_image_is_made_without_git(self):
        self.write(self.tree / "scripts/package.sh", '#!/bin/sh\nmkdir -p "$1/bin"\ncp /bin/true "$1/bin/tern"\n')
        self.write(self.programs / "buildah", RECORDER + 'case "$*" in *oci-archive:*) echo >"$IMAGE" ;; esac\n')
        image = self.folder / "tern.oci.tar"
        self.run_script("image.sh", image, code=0, IMAGE=str(image))
        calls = "\n".join(self.calls())
        self.assertRegex(calls, r"commit --quiet --timestamp [0-9]{10} ")
        self.assertIn("image.revision=unknown", calls)

    def test_a_debian_package_without_git_is_refused_at_once(self):
        self.write(self.programs / "dpkg-shlibdeps", RECORDER)
        self.assertRegex(self.run_script("deb.sh", code=69, TERN_BUILD_DIR="/does/not/exist"), "is no clone of git")

    def test_a_wheel_without_venv_is_refused_at_once(self):
        self.write(self.programs / "python3", '#!/bin/sh\nexit 1\n')
        self.assertIn("apt-get install python3-venv", self.run_script("wheel.sh", code=69, TERN_BUILD_DIR="/does/not/exist"))

    def thorough(self, build):
        """Starts this check of a release with such a build, and returns the process."""
        for script in ("install_deps.sh", "build_libzmq.sh"):
            self.write(self.tree / "scripts" / script, RECORDER)
        for program in ("ctest", "git"):
            self.write(self.programs / program, RECORDER)
        self.write(self.programs / "cmake", RECORDER + f'case $1 in --build) {build} ;; esac\n')
        return self.start("release_check.sh", "thorough")

    def test_thorough_tests_leave_the_build_as_it_was(self):
        for build, sign in (("true", None), ("exit 2", None), ("exec sleep 60", signal.SIGINT), ("exec sleep 60", signal.SIGTERM)):
            with self.subTest(build=build, signal=sign):
                (self.folder / "calls").unlink(missing_ok=True)
                process = self.thorough(build)
                if sign:
                    self.await_true(lambda: sleeps_in_group(process.pid))
                    os.killpg(process.pid, sign)
                said, _ = process.communicate(timeout=60)
                self.assertEqual(process.returncode == 0, build == "true", said)
                # The shell of the check may end after the script.
                self.await_true(lambda: re.findall("TERN_THOROUGH=(ON|OFF)", "\n".join(self.calls())) == ["ON", "OFF"])

    def await_true(self, is_so):
        deadline = time.monotonic() + 60
        while not is_so():
            self.assertLess(time.monotonic(), deadline, self.calls())
            time.sleep(0.01)


def sleeps_in_group(group):
    """Whether a program `sleep` runs in this group of processes."""
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            words = path.read_text().split()  # number, (name), state, parent, group
        except OSError:  # it has ended meanwhile
            continue
        if words[1] == "(sleep)" and words[4] == str(group):
            return True
    return False


if __name__ == "__main__":
    unittest.main()
