"""One wheel for every Python: the library is loaded by ctypes, so that only the machine matters."""

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel


class Binary(Distribution):
    def has_ext_modules(self):
        return True


class MachineWheel(bdist_wheel):
    def get_tag(self):
        return "py3", "none", "linux_x86_64"


setup(distclass=Binary, cmdclass={"bdist_wheel": MachineWheel})
