#!/usr/bin/env python3
"""Tests what gpu_counts.py makes of the words of ptxas and nvdisasm, and that a count over its bar fails.

  gpu_counts_test.py SOURCE_DIR
"""
import contextlib
import io
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(sys.argv.pop(1)).resolve() / "bench"))
import gpu_counts  # noqa: E402: found by the line above

PTXAS = """ptxas info    : Compiling entry function '_Z4codev' for 'sm_90'
ptxas info    : Function properties for _Z4codev
    16 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 72 registers, used 0 barriers, 8 bytes cumulative stack size, 3232 bytes smem
ptxas info    : Function properties for _Z5exactv
    0 bytes stack frame, 8 bytes spill stores, 0 bytes spill loads
ptxas info    : Compiling entry function '_Z4readv' for 'sm_90'
ptxas info    : Function properties for _Z4readv
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 30 registers, used 0 barriers
"""
# A loop over sections with two inner loops: one loads vectors, the other is for rare cases.
SASS = """.text._Z4codev:
        /*0000*/                   MOV R1, c[0x0][0x28] ;
.L_x_0:
        /*0010*/                   IADD3 R2, R2, 0x1, RZ ;
.L_x_1:
        /*0020*/                   LDG.E.128 R4, desc[UR4][R2.64] ;
        /*0030*/                   LOP3.LUT R0, R0, 0x1f, RZ, 0xc0, !PT ;
        /*0040*/                   FFMA R4, R5, R6, R7 ;
        /*0050*/               @P0 BRA `(.L_x_1) ;
.L_x_2:
        /*0060*/                   LDG.E R4, desc[UR4][R2.64] ;
        /*0070*/              @!P1 BRA `(.L_x_2) ;
        /*0080*/                   POPC R4, R5 ;
        /*0090*/               @P2 BRA `(.L_x_0) ;
        /*00a0*/                   EXIT ;
"""


class Counts(unittest.TestCase):
    def test_reads_resources(self):
        found = gpu_counts.resources(PTXAS)
        self.assertEqual(found["_Z4codev"], gpu_counts.Bar(72, 3232, spills=12))
        self.assertEqual(found["_Z5exactv"], gpu_counts.Bar(0, 0, spills=8), "a function that is called may spill, too")
        self.assertEqual(found["_Z4readv"], gpu_counts.Bar(30, 0))

    def test_counts_the_pipes_of_the_hot_loop(self):
        body = gpu_counts.functions(SASS)["_Z4codev"]
        self.assertEqual(gpu_counts.count_pipes(body, gpu_counts.Loop(256, {})),
                         {"LSU": 1, "ALU": 1, "FMA": 1, "other": 1, "all": 4})
        # Twice the four, and once what is around them; not the loop of rare cases.
        self.assertEqual(gpu_counts.count_pipes(body, gpu_counts.Loop(512, {}, inner_turns=2)),
                         {"LSU": 1, "ALU": 1.5, "FMA": 1, "other": 1.5, "XU": 0.5, "all": 5.5})

    def main(self, bars):
        """Runs the program on the words above as if they were those of the kernels; returns its exit code and words."""
        def said(*words):
            if words[0] == "c++filt":
                return "\n".join(word[3:-1] + "()" for word in words[1:]), ""
            return ("release 13.0", "") if words[1] == "--version" else ("", PTXAS)

        out = io.StringIO()
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), \
                unittest.mock.patch.multiple(gpu_counts, run=said, BARS=bars, find_tool={"nvcc": "nvcc"}.get,
                                             ROOT=pathlib.Path(folder), REST=gpu_counts.Bar(100, 4000, spills=8)), \
                unittest.mock.patch.object(sys, "argv", ["gpu_counts"]):
            (pathlib.Path(folder) / "kernels/codes").mkdir(parents=True)
            (pathlib.Path(folder) / "kernels/codes/ternary.cu").touch()
            code = gpu_counts.main()
        return code, out.getvalue()

    def test_a_count_over_its_bar_fails(self):
        self.assertEqual(self.main({"ternary code": gpu_counts.Bar(72, 3232, spills=12)})[0], 0)
        for bar, word in ((gpu_counts.Bar(71, 3232, 12), "registers: 72, at most 71"), (gpu_counts.Bar(72, 3231, 12), "shared: 3232, at most 3231"),
                          (gpu_counts.Bar(72, 3232), "spills: 12, at most 0")):
            code, said = self.main({"ternary code": bar})
            self.assertEqual(code, 1)
            self.assertIn(word, said)

    def test_names_what_is_not_counted(self):
        said = self.main({"ternary code": gpu_counts.Bar(72, 3232, 12)})[1]
        self.assertIn("there is no nvdisasm here", said)
        self.assertIn("Not counted: launches", said)


if __name__ == "__main__":
    unittest.main()
