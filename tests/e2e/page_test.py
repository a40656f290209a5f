"""What people and machines see of a running job: status.json, the page, `tern top`, Prometheus.

  page_test.py ROOT BUILD [-v] [TEST...]

One job of four workers serves all tests. Those that need a program that is not installed (chromium-headless-shell, tmux,
prometheus) are skipped.
"""
import html
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import watched_job

ROOT, BUILD = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
# What a worker calls its host: markup that would change the title of a page that believes it.
HOSTILE = "<img src=x onerror=document.title='taken'>"
JOB = None  # the WatchedJob


def needs(program):
    return unittest.skipUnless(shutil.which(program), f"{program} is not installed")


def state_of(rank):
    return JOB.status()["workers"][rank]["state"]


def dom_of(url):
    """Opens the page in a browser. Returns its document after a few seconds, and what the browser reports."""
    done = subprocess.run(["chromium-headless-shell", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
                           "--virtual-time-budget=5000", "--dump-dom", url], capture_output=True, text=True, timeout=120)
    return done.stdout, done.stderr


class Status(unittest.TestCase):
    def test_it_names_a_stopped_worker(self):
        JOB.signal("worker 1", watched_job.STOP)
        try:
            seconds = JOB.seconds_until("worker 1 is named", lambda: state_of(1) in ("silent", "lost"))
            print(f"status.json named a stopped worker after {seconds:.2f} s")
            self.assertGreater(JOB.status()["workers"][1]["silent_s"], 0.5)
            self.assertEqual(state_of(0), "training")
        finally:
            JOB.signal("worker 1", watched_job.GO_ON)
        JOB.wait("worker 1 trains again", lambda: state_of(1) == "training")
        self.assertTrue(any("worker 1" in event["text"] for event in JOB.status()["events"]))

    def test_it_has_what_shard_0_knows(self):
        status = JOB.wait("speed and curve", lambda: (s := JOB.status())["steps_per_s"] > 0 and s["left_s"] and s)
        self.assertEqual((status["job"]["name"], status["steps"], status["state"]), ("watched", 1000000, "running"))
        self.assertGreater(len(status["history"]["losses"]), 0)
        self.assertGreater(len(status["history"]["tests"]), 0)
        self.assertGreater(status["up_ratio"], 5)
        for worker in status["workers"]:
            for key in ("computing", "waiting", "up_bytes_per_step", "down_bytes_per_step", "round_trip_s", "loss"):
                self.assertGreater(worker[key], 0, key)

    def test_probes_and_signposts(self):
        self.assertEqual(JOB.get("/healthz")[0], 200)
        self.assertEqual(JOB.get("/readyz")[0], 200)
        code, _, text = JOB.get("/", JOB.metrics_port + 100 + 2)
        self.assertEqual(code, 200)
        self.assertIn("worker 2", text)
        self.assertIn(JOB.url, text)

    def test_a_hostile_host_name_stays_text(self):
        if 2 not in JOB.host_names:
            self.skipTest("this process may not give a child a host name")
        _, headers, text = JOB.get("/status.json")
        self.assertEqual(headers["Content-Type"], "application/json")
        self.assertEqual(json.loads(text)["workers"][2]["host"], HOSTILE)


@needs("chromium-headless-shell")
class Page(unittest.TestCase):
    def test_it_shows_the_workers_and_no_markup_of_theirs(self):
        dom, log = dom_of(JOB.url)
        rows = re.search(r'<table id="workers">.*?<tbody>(.*?)</tbody>', dom, re.DOTALL).group(1)
        self.assertEqual(rows.count("<tr>"), 4, dom)
        self.assertEqual(rows.count(">training<"), 4, rows)
        self.assertRegex(dom, r'<dt>step</dt><dd>[0-9,]+ of 1,000,000</dd>')
        self.assertRegex(dom, r'<path class="loss" d="M[0-9L. ]+"')
        self.assertNotIn("Refused to", log)  # by the Content-Security-Policy
        self.assertNotIn("Uncaught", log)
        if 2 in JOB.host_names:
            self.assertIn(html.escape(HOSTILE, quote=False), rows)
        self.assertNotIn("<img", dom)
        self.assertNotIn("<title>taken", dom)


@needs("tmux")
class Top(unittest.TestCase):
    def setUp(self):
        self.socket = f"tern_watching_{id(self)}"

    def tearDown(self):
        self.tmux("kill-server")

    def tmux(self, *words):
        return subprocess.run(["tmux", "-f", "/dev/null", "-L", self.socket, *words], capture_output=True, text=True).stdout

    def screen(self):
        return self.tmux("capture-pane", "-p", "-t", "top")

    def wait_for(self, pattern):
        return JOB.wait(f"{pattern} on the screen", lambda: re.search(pattern, self.screen(), re.MULTILINE))

    def test_it_shows_the_workers_in_80_x_24(self):
        self.tmux("new-session", "-d", "-s", "top", "-x", "80", "-y", "24", f"{BUILD}/bin/tern top {JOB.job_file}")
        for rank in range(4):
            self.wait_for(rf"^ +{rank} \S.* training ")
        screen = self.screen()
        self.assertRegex(screen, r"(?m)^watched  running  step \d+ of 1000000")
        self.assertLessEqual(max(len(line) for line in screen.splitlines()), 80)
        self.tmux("send-keys", "-t", "top", "s")
        self.wait_for("sort: state")
        self.tmux("send-keys", "-t", "top", "p")
        self.wait_for("PAUSED")
        self.tmux("send-keys", "-t", "top", "q")
        JOB.wait("tern top ends", lambda: "top" not in self.tmux("list-sessions"))


class StatusCommand(unittest.TestCase):
    def tern(self, *words):
        return subprocess.run([BUILD / "bin/tern", *words], capture_output=True, text=True, timeout=60)

    def test_it_prints_the_same_once(self):
        done = self.tern("status", JOB.url)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(re.findall(r"(?m)^ +\d \S.* training ", done.stdout)), 4, done.stdout)
        as_json = self.tern("status", str(JOB.job_file), "--json")
        self.assertEqual(json.loads(as_json.stdout)["job"]["name"], "watched")

    def test_it_says_what_is_wrong(self):
        for words, code, text in (((f"{JOB.url}metrics",), 69, "HTTP status 404"),
                                  (("http://127.0.0.1:1/",), 69, "refused"),
                                  (("https://127.0.0.1:1/",), 64, "expected http://"),
                                  ((str(JOB.job_file), "--set", "metrics.port=0"), 64, "metrics.port")):
            done = self.tern("status", *words)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(text, done.stderr)


@needs("promtool")
@needs("prometheus")
class Prometheus(unittest.TestCase):
    def test_promtool_finds_nothing_in_the_metrics(self):
        for port in (JOB.metrics_port, JOB.metrics_port + 100):
            done = subprocess.run(["promtool", "check", "metrics"], input=JOB.get("/metrics", port)[2], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_promtool_accepts_the_example_and_the_alerts(self):
        for words in (("check", "config", "deploy/prometheus/prometheus.yml"), ("test", "rules", "tests/deploy/alerts_test.yml")):
            done = subprocess.run(["promtool", *words], cwd=ROOT, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_every_query_of_the_board_has_an_answer(self):
        board = json.loads((ROOT / "deploy/grafana/tern.json").read_text())
        queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
        self.assertGreater(len(queries), 20)
        with tempfile.TemporaryDirectory() as folder:
            port, _ = watched_job.free_ports(0)
            targets = [f"127.0.0.1:{JOB.metrics_port + n}" for n in (0, 100, 101, 102, 103)]
            config = [{"targets": targets[:1], "labels": {"tern_job": "watched", "role": "server"}},
                      {"targets": targets[1:], "labels": {"tern_job": "watched", "role": "worker"}}]
            (pathlib.Path(folder) / "p.yml").write_text(json.dumps(
                {"global": {"scrape_interval": "1s"}, "scrape_configs": [{"job_name": "tern", "static_configs": config}]}))
            prometheus = subprocess.Popen(["prometheus", f"--config.file={folder}/p.yml", f"--storage.tsdb.path={folder}/data",
                                           f"--web.listen-address=127.0.0.1:{port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                for query in queries:
                    query = query.replace("$tern_job", ".*").replace("$__rate_interval", "10s").replace("[2m]", "[10s]")
                    JOB.wait(query, lambda query=query: self.answer(port, query))
            finally:
                prometheus.kill()
                prometheus.wait()

    def answer(self, port, query):
        code, _, text = JOB.get(f"/api/v1/query?query={watched_job.quote(query)}", port)
        self.assertIn(code, (200, 503), text)  # 503: it starts
        return code == 200 and json.loads(text)["data"]["result"]


if __name__ == "__main__":
    begin = time.monotonic()
    with watched_job.WatchedJob(BUILD, host_names={2: HOSTILE}) as JOB:
        JOB.wait_until_it_trains()
        print(f"the job trains after {time.monotonic() - begin:.1f} s")
        program = unittest.main(argv=[sys.argv[0], *sys.argv[3:]], exit=False, verbosity=2)
    sys.exit(0 if program.result.wasSuccessful() else 1)
