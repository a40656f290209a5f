"""What systemd's units and the installed tree need, and no systemd is asked about.

  deploy_test.py ROOT BUILD
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT, BUILD = (pathlib.Path(word).resolve() for word in sys.argv[1:3])


def settings(role):
    """The keys of a unit with their last values, and its environment."""
    lines = [line.split("=", 1) for line in (ROOT / f"deploy/systemd/tern-{role}@.service").read_text().splitlines()
             if "=" in line and not line.startswith("#")]
    return dict(lines), dict(value.strip('"').split("=", 1) for key, value in lines if key == "Environment")


class Deploy(unittest.TestCase):
    def test_a_job_that_a_signal_has_stopped_is_not_started_again(self):
        codes = (ROOT / "common/base/status.h").read_text()
        stopped = set(re.findall(r"k(?:Interrupted|Terminated) = (\d+)", codes))
        self.assertEqual(len(stopped), 2)
        for role in ("server", "worker"):
            self.assertEqual(set(settings(role)[0]["SuccessExitStatus"].split()), stopped)

    def test_the_workers_of_a_host_meet_in_one_folder(self):
        keys, environment = settings("worker")
        self.assertEqual(keys["PrivateTmp"], "yes")
        self.assertEqual(environment["TMPDIR"], f"/run/{keys['RuntimeDirectory']}")
        # Else the first worker that ends takes the others' folder along.
        self.assertEqual(keys["RuntimeDirectoryPreserve"], "yes")

    def test_what_the_documents_tell_to_copy_is_installed(self):
        files = set(re.findall(r"\((?:\.\./)?deploy/([^)]*\.\w+)\)", (ROOT / "docs/CLUSTERS.md").read_text()))
        self.assertIn("systemd/keys/server.conf", files)
        with tempfile.TemporaryDirectory() as prefix:
            subprocess.run(["cmake", "--install", BUILD, "--prefix", prefix], check=True, stdout=subprocess.DEVNULL)
            installed = pathlib.Path(prefix) / "share/tern/deploy"
            for file in files | {"systemd/keys/worker.conf"}:
                self.assertTrue((installed / file).is_file(), file)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
