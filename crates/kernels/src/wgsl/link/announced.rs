//! The persistent kernel whose stages hand over values that announce themselves: cells for them, and what is done with cells
//! before the first layer and behind the last one.

use super::part::{Part, buffer_name};
use super::stage::Stage;
use super::{ACQUIRE, EACH_LAYER, LEAVE, Launch, Ordered, UNLESS_ABORTED, calls, iterations};
use std::fmt::Write;

/// Cells before those of values: must match `kernels-wgsl/device/announced.wgsl`.
const CELLS_HEAD: u64 = 4;

/// What announces itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Announcing {
    /// Cells of a layer, a multiple of four.
    pub cells_per_layer: u32,
    /// Values with which the first layer begins: they go into the cells of the layer before it.
    pub carried: Vec<CellCopy>,
    /// Values of the last layer, which come from its cells.
    pub results: Vec<CellCopy>,
}

/// A range of cells of a layer, and the elements of a buffer of f32 that belong to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellCopy {
    /// The first cell.
    pub cells: u32,
    /// Index of the buffer.
    pub buffer: usize,
    /// The first element.
    pub elements: u32,
    /// How many.
    pub count: u32,
}

impl Announcing {
    /// Cells of a bank, for so many layers and what comes before them: the second word of the offset table.
    pub fn bank(&self, layers: u32) -> u32 {
        (layers + 1) * self.cells_per_layer
    }

    /// Bytes of all cells.
    pub fn bytes(&self, layers: u32) -> u64 {
        let bank = (u64::from(layers) + 1) * u64::from(self.cells_per_layer);
        // One vec4 more: the last look, of a thread that gives up, is one vec4 behind its own.
        4 * (2 * CELLS_HEAD + 2 * bank)
    }
}

/// The cells, bound behind the buffers, and the functions that use them.
pub(super) fn declarations(announcing: &Announcing, buffers: usize, device: &str) -> String {
    let first = buffers + 2;
    format!(
        "@group(0) @binding({first}) @coherent var<storage, read_write> cells: array<atomic<u32>>;\n\
         @group(0) @binding({}) @coherent var<storage, read_write> cells_vec4: array<vec4<u32>>;\n\
         const CELLS_PER_LAYER: u32 = {}u;\n{device}",
        first + 1,
        announcing.cells_per_layer
    )
}

/// What the entry point does. A barrier among all stands behind the layers: what comes then overwrites what slow workgroups read
/// until there. The other bank of the cells is cleared while it is waited for.
pub(super) fn body(parts: &[Part<'_>], stages: &[Stage], launch: Launch, announcing: &Announcing) -> String {
    let all = u64::from(launch.workgroups) * u64::from(launch.threads);
    let mut out = format!(
        "    begin_announcing(tid);\n    {UNLESS_ABORTED}\n    let thread = workgroup.x * {}u + tid;\n    \
         enter_layer(0u);\n",
        launch.threads
    );
    for CellCopy { cells, buffer, elements, count } in &announcing.carried {
        let _ = writeln!(
            out,
            "    for (var i = thread; i < {count}u; i += {all}u) {{\n        \
             announce(cells_before + {cells}u + i, {}[{elements}u + i]);\n    }}",
            buffer_name(*buffer)
        );
    }
    out += &layers(parts, stages, launch, false);
    let _ = writeln!(
        out,
        "    arrive(tid);\n    clear_other_bank(thread, {all}u);\n    wait(tid);\n        {ACQUIRE}\n        {LEAVE}"
    );
    if parts.iter().any(|part| part.is_last) {
        out += &layers(parts, stages, launch, true);
    }
    let _ = writeln!(out, "    enter_layer(offsets[0].x - 1u);");
    for CellCopy { cells, buffer, elements, count } in &announcing.results {
        // What no stage has stored stays as it is.
        let _ = writeln!(
            out,
            "    for (var i = thread; i < {count}u; i += {all}u) {{\n        \
             let word = atomicLoad(&cells[cells_here + {cells}u + i]);\n        if word != 0u {{\n            \
             {}[{elements}u + i] = bitcast<f32>(~word);\n        }}\n    }}",
            buffer_name(*buffer)
        );
    }
    out += "    if thread == 0u {\n        end_announcing();\n    }\n";
    out
}

/// The stages of all layers in their order, those that run behind all layers or the others. A workgroup that has none of a stage's
/// work goes on to the next one: what waits, waits for an earlier stage, and those are begun in order. Behind all layers no
/// layer waits for another: each begins with other workgroups.
fn layers(parts: &[Part<'_>], stages: &[Stage], launch: Launch, last: bool) -> String {
    let mut out = format!("    {EACH_LAYER}\n        enter_layer(layer);\n");
    let of_all: Vec<_> = parts.iter().zip(stages).enumerate().filter(|(_, (part, _))| part.is_last == last).collect();
    let workgroups: u64 = of_all.iter().map(|(_, (part, stage))| iterations(part.workgroups, stage, launch)).sum();
    let place = match last {
        true => format!("(workgroup.x + layer * {}u) % WORKGROUPS", workgroups % u64::from(launch.workgroups)),
        false => "workgroup.x".to_owned(),
    };
    let _ = writeln!(out, "        let place = {place};");
    let mut taken = 0;
    for (i, (part, stage)) in of_all {
        if part.needs_grid_sync && !last {
            out += match i {
                0 => "        if layer > 0u {\n            arrive(tid);\n        }\n",
                _ => "        arrive(tid);\n",
            };
            let _ = writeln!(out, "        wait(tid);\n        {ACQUIRE}\n        {LEAVE}");
        }
        stage.load_offsets(&mut out);
        taken = calls(&mut out, part.workgroups, stage, launch, (taken, Ordered::ByValues));
    }
    out += "    }\n";
    out
}
