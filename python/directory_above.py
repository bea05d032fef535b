"""The build backend of the directory above, for those who name this one."""

import os
import pathlib

os.chdir(pathlib.Path(__file__).resolve().parent.parent)

from scikit_build_core.build import *  # noqa: E402, F403
