"""Varies a kernel's text until `wgoose dev kernel --json` says FASTER: python kernel_loop.py WGOOSE FOLDER

The op is `mul`, y = a * b. A verdict is about a kernel beside the fastest other one, those of former rounds included.
"""

import json, random, subprocess, sys
from pathlib import Path

TEXT = """// idea: y = a * b, {each} vectors of {width} for each thread.
// grid: ceil_div(rows * m, {width}u * {each}u * WG)
#import lib/op

const WG: u32 = {wg}u;      // tune: {wg}
const M: u32 = 256u;        // op: m

const_assert M % {width}u == 0u;    // rows of whole vectors

@group(0) @binding(1) var<storage, read> a: array<{type}>;
@group(0) @binding(2) var<storage, read> b: array<{type}>;
@group(0) @binding(3) var<storage, read_write> y: array<{type}>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>,
        @builtin(local_invocation_index) tid: u32) {{
    let first = workgroup_index(workgroup, grid) * WG * {each}u + tid;
    for (var n = 0u; n < {each}u; n++) {{
        let i = first + n * WG;
        if i < params.rows * (M / {width}u) {{
            y[i] = a[i] * b[i];
        }}
    }}
}}
"""


def judged(wgoose, folder, name, budget):
    """The judgements of a kernel, the last of which is about all."""
    line = f"dev kernel mul/{name} --kernels {folder} --json --cases 8 --tokens 512 --budget {budget}"
    done = subprocess.run([wgoose, *line.split()], capture_output=True, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return lines or [{"verdict": "CRASHED", "reason": done.stderr}]


def main(wgoose, folder):
    ops = Path(folder, "ops", "mul")
    ops.mkdir(parents=True, exist_ok=True)
    ways = [(width, each, wg) for width in (1, 2, 4) for each in (1, 2, 4, 8) for wg in (64, 256)]
    random.Random(1).shuffle(ways)
    for budget in (4, 16, 64):  # on a busy machine, samples of 4 s do not decide
        unsure = []
        for width, each, wg in ways:
            name = f"vec{width}_each{each}_wg{wg}"
            kind = "f32" if width == 1 else f"vec{width}<f32>"
            ops.joinpath(f"{name}.wgsl").write_text(TEXT.format(width=width, each=each, wg=wg, type=kind))
            for judgement in judged(wgoose, folder, name, budget):
                print(name, judgement["verdict"], judgement["reason"], flush=True)
            if judgement["verdict"] == "FASTER":
                return 0
            if judgement["verdict"] == "UNSURE":
                unsure.append((width, each, wg))
        ways = unsure
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
