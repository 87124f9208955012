#!/usr/bin/env python3
"""Object files that contain Eigen define no symbol that another program's Eigen, or the same code for
another instruction set, could be merged with.

    eigen_symbols.py NM OBJECT...
"""

import subprocess
import sys

failures = 0
for path in sys.argv[2:]:
    listed = subprocess.run([sys.argv[1], "--demangle", "--defined-only", "--extern-only", path],
                            capture_output=True, text=True, check=True).stdout
    names = [line.split(maxsplit=2)[2] for line in listed.splitlines() if line.strip()]
    if not any("eigen_microkernels" in name for name in names):
        sys.exit(f"{path}: no eigen_microkernels among its symbols")
    for name in names:
        # g++ 14 defines DW.ref.*, the address of the exception handler, which is equal in all files.
        if "tessera_eigen_" not in name and not name.startswith(("tessera::", "DW.ref.")):
            print(f"{path}: defines {name}, which the linker may take for all instruction sets")
            failures += 1
sys.exit(failures > 0)
