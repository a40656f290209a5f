"""Tests attacks.py and the attacker: each attack for a moment on one running job, and the verdicts.

  attacks_test.py SOURCE_DIR BIN_FOLDER ATTACKER
"""
import argparse
import contextlib
import io
import pathlib
import re
import subprocess
import sys
import unittest

SOURCE, BIN, ATTACKER = (pathlib.Path(word).resolve() for word in (sys.argv.pop(1), sys.argv.pop(1), sys.argv.pop(1)))
sys.path.insert(0, str(SOURCE / "bench"))
import attacks  # noqa: E402: found by the line above

SECONDS = 0.1
OPTIONS = argparse.Namespace(bin=BIN, attacker=ATTACKER, worker_cores=None, attacker_cores=None)


def phase(rate=9.5, growth_mib=15.0, log_bytes_s=1900.0):
    return attacks.Phase(rate, growth_mib, log_bytes_s, 0.5, {"connections": 3, "sent_bytes": 10**6})


class Attacker(unittest.TestCase):
    def test_every_attack_reaches_the_servers_and_ends(self):
        spin, *others = attacks.list_attacks(ATTACKER)
        self.assertEqual(spin.name, "spin")
        job = attacks.AttackedJob(OPTIONS, [], 10**6)
        try:
            job.wait_for_round(1)
            for attack in others:
                with self.subTest(attack.name):
                    self.assertRegex(attack.finding, r"^(F\d+ ?)+$|^held$")
                    self.assertGreater(job.attack(attack, SECONDS).sent["connections"], 0)
            job.wait_for_round(job.rounds() + 1)  # raises an exception if a daemon has ended
        finally:
            job.close()

    def test_it_says_what_it_does_not_understand(self):
        for words in ([], ["no_such_attack", "--seconds", "1", "7500"], ["silent", "7500"], ["silent", "--seconds", "1"],
                      ["silent", "--seconds"], ["silent", "--color", "red", "7500"],
                      ["silent", "--seconds", "1", "--job", "no_such_file", "7500"]):
            with self.subTest(words):
                done = subprocess.run([ATTACKER, *words], capture_output=True, text=True)
                self.assertEqual(done.returncode, 64)
                self.assertRegex(done.stderr, "^attacker: .")


class Verdicts(unittest.TestCase):
    def verdict_of(self, seen, is_same=True):
        """Returns the verdict of a row, and the keys of the targets that are missed."""
        table, printed = attacks.Table(), io.StringIO()
        with contextlib.redirect_stdout(printed):
            table.add("none", attacks.Attack("silent", "F16", "control", "-"), 1, seen, phase(rate=10.0), is_same)
        return re.search(r"(\w+) \|$", printed.getvalue())[1], table.figures().missed()

    def test_a_row_is_met_if_all_is(self):
        self.assertEqual(self.verdict_of(phase()), ("met", []))

    def test_a_row_is_missed_if_anything_is(self):
        self.assertEqual(self.verdict_of(phase(growth_mib=16.5)), ("MISSED", ["attack_memory"]))
        self.assertEqual(self.verdict_of(phase(log_bytes_s=2100)), ("MISSED", ["attack_log"]))
        self.assertEqual(self.verdict_of(phase(rate=8.9)), ("MISSED", ["attack_rate"]))
        self.assertEqual(self.verdict_of(phase(), is_same=False), ("MISSED", ["attack_outcome"]))

    def test_a_job_that_ended_early_is_missed(self):
        table = attacks.Table()
        with contextlib.redirect_stdout(io.StringIO()):
            table.add_broken("none", attacks.Attack("silent", "F16", "control", "-"), attacks.Ended("server.0 ended"))
        self.assertEqual(table.figures().missed(), ["attack_outcome"])


if __name__ == "__main__":
    unittest.main()
