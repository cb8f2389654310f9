#!/bin/sh
# Runs every command of README.md and the example of every tool's --help, in a folder with the files that they name.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$root"/testdata/models/*.py "$work"
cd "$work"
"$root/scripts/inputs.py" 'x=uniform:f32[1,3,224,224]' -o .
exec /usr/bin/python3 - "$root" <<'PYTHON'
import glob, os, re, subprocess, sys

root = sys.argv[1]
readme = open(f"{root}/README.md").read()
ran = 0


def shell(commands, what):
    global ran
    ran += 1
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", commands], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{what}: exit {done.returncode}\n{commands}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout + done.stderr


def times(*names):
    return {name: os.stat(name).st_mtime_ns for name in names}


for block in re.findall(r"```sh\n(.*?)```", readme, re.S):
    shell(block, "README.md")

# The Makefile: a touched model rebuilds its own stages, and a second make has nothing to do.
open("Makefile", "w").write(re.search(r"```make\n(.*?)```", readme, re.S).group(1))
stages = ["captured", "decomposed", "specialized", "lowered", "atn"]
mlp, lstm = ([f"{m}.{s}" for s in stages] for m in ("mlp", "lstm"))
os.remove("mlp.atn")
shell("make", "README.md's Makefile")
assert "Nothing to be done" in shell("make", "make again")
before = times(*mlp, *lstm)
shell("touch mlp.py; make", "make after a touch")
after = times(*mlp, *lstm)
assert all(after[f] > before[f] for f in mlp), "a touched model was not rebuilt"
assert all(after[f] == before[f] for f in lstm), "another model was rebuilt"

# What the examples of --help read.
shell("cp captured.atn net.atn; cp mlp.py net.py; atenon capture mlp.py -o prefill.atn; for b in 1 8; do atenon capture mlp.py |"
      " atenon specialize batch=$b -o batch$b.atn; done", "preparing the examples")
tools = sorted(glob.glob(f"{sys.argv[1]}/tools/*.cpp"))
for tool in tools:
    name = os.path.basename(tool)[:-4]
    if name == "atenon":
        continue
    text = shell(f"atenon-{name} --help", "help")
    shell(text[text.index("example:\n") + 9:], f"the example in atenon {name} --help")
    shell(f"atenon-{name} --man | man --warnings -l - > /dev/null", f"the man page of atenon {name}") if os.path.exists("/usr/bin/man") else None
print(f"{ran} commands ran")
PYTHON
