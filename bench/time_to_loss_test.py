#!/usr/bin/env python3
"""Tests what time_to_loss.py makes of logs and curves: when a run has reached the loss, and what the table says of runs that do not.

  time_to_loss_test.py SOURCE_DIR
"""
import argparse
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(sys.argv.pop(1)).resolve() / "bench"))
import time_to_loss  # noqa: E402: found by the line above

LOGS = """I20261130 23:59:58.500000 13548 net_loop.cc:267] worker 0 takes part in the job test
I20261130 23:59:59.500000 13550 net_loop.cc:267] worker 1 takes part in the job test
I20261201 00:00:08.500000 13548 evaluation.cc:90] after step 96: test accuracy 0.4000 of 2000 images, test loss 2.0, training loss 2.1
I20261201 00:00:18.500000 13548 evaluation.cc:90] after step 192: test accuracy 0.6000 of 2000 images, test loss 0.5, training loss 1.0
"""
NET = "resnet20"


class TimeToLoss(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tern_time_to_loss.")
        self.addCleanup(folder.cleanup)
        self.options = argparse.Namespace(programs=pathlib.Path("bin"), data=pathlib.Path("data"), rate_mbit=100, nets=[NET],
                                          record=pathlib.Path(folder.name) / "record.json")
        self.record = time_to_loss.Record(self.options)

    def keep(self, arm, seed, curve):
        self.record.keep(self.record.key(NET, arm, seed), {"curve": curve, "in_gb": 0.4, "out_gb": 0.8})

    def test_reads_the_moments_of_evaluations(self):
        with unittest.mock.patch("processes.run_job", return_value=([], LOGS, {})):
            curve = time_to_loss.tern(None, self.options, NET, (), 1)
        self.assertEqual(curve, [[10.0, 96, 2.0], [20.0, 192, 0.5]])

    def test_the_pilot_runs_first_and_sets_the_loss(self):
        self.assertEqual(self.record.todo()[0], (NET, time_to_loss.BASE, time_to_loss.PILOT_SEED))
        self.assertIsNone(self.record.target(NET))
        self.keep(time_to_loss.BASE, time_to_loss.PILOT_SEED, [[10, 96, 1 / time_to_loss.SHARE]])
        self.assertAlmostEqual(time_to_loss.Record(self.options).target(NET), 1)  # from the file
        self.assertEqual(len(self.record.todo()), 3 * 7)

    def test_a_loss_is_reached_between_evaluations(self):
        self.keep(time_to_loss.BASE, time_to_loss.PILOT_SEED, [[10, 96, 1 / time_to_loss.SHARE]])
        self.keep(time_to_loss.PEER, 1, [[10, 100, 2.0], [20, 200, 0.5]])  # the same factor in each step: 1 after 150
        for value, expected in zip(self.record.reached(NET, time_to_loss.PEER, 1), (15, 0.3, 0.6)):
            self.assertAlmostEqual(value, expected)
        self.keep(time_to_loss.BASE, 1, [[5, 100, 0.9]])
        self.assertEqual(self.record.reached(NET, time_to_loss.BASE, 1), (5, 0.4, 0.8))
        self.keep("pytorch: fp32", 1, [[10, 100, 1.5]])
        self.assertIsNone(self.record.reached(NET, "pytorch: fp32", 1))
        text = time_to_loss.table(self.record, self.options)
        self.assertIn(f"| {time_to_loss.BASE} | 1 | 5 | 5 | 3.00 | 0.400, 0.800 |", text)
        self.assertIn("| pytorch: fp32 | 1 | - | - | - | - |", text)


if __name__ == "__main__":
    unittest.main()
