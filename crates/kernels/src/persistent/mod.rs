//! The persistent step: the dispatches of several layers as one kernel, whose workgroups stay and meet between stages.
//!
//! A dispatch boundary costs a fast GPU 3 to 5 us, a barrier among workgroups that are all resident 1 to 2. The stages are
//! the kernels that the plan chose, taken as texts: their names are set apart, their entry points become functions that
//! are called for one unit after another, their operands are read from *pools*, buffers that hold an operand of every
//! layer. So there is one source for both forms, and every kernel can be a stage that is as wide as the others.
//!
//! WGSL promises no progress between workgroups, so a merged kernel is only run where it was seen to work, and it gives
//! up rather than wait for ever (`kernels-wgsl/persistent/meeting.wgsl`).

mod locals;
mod stage;
mod tokens;

use crate::source::{Sources, wgsl};
use crate::specialise::{Specialised, read};
use crate::{Feature, Kernel, Limits, Refusal};
use stage::Stage;
use std::collections::BTreeSet;
use std::fmt::Write;

/// Where an operand lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Index of the pool.
    pub pool: usize,
    /// Its first element there.
    pub base: Base,
}

/// The first element of an operand in its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// The same in every layer.
    Fixed(u32),
    /// In the table of bases, `[layers, columns]`: the column.
    PerLayer(usize),
}

/// A buffer as an array of one type; binding 2 + its index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// WGSL type of the elements.
    pub element: String,
    /// Whether any stage writes the buffer, through this pool or another.
    pub is_written: bool,
}

/// A kernel as a stage of a layer.
#[derive(Clone, Debug)]
pub struct StagePart<'a> {
    /// The kernel.
    pub kernel: &'a Kernel,
    /// Workgroups of its dispatch.
    pub units: u64,
    /// Its uniform block.
    pub params: [u32; 12],
    /// Where its operands lie, by binding number.
    pub places: Vec<(u32, Place)>,
    /// Whether it must wait for the stages before it.
    pub meets: bool,
}

/// How the stages are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// Layers, one after another.
    pub layers: u32,
    /// Columns of the table of bases, binding 1: `[layers, columns]`.
    pub columns: usize,
    /// Workgroups; all must be resident.
    pub workgroups: u32,
    /// Invocations of each.
    pub threads: u32,
}

/// Whether a kernel can be a stage for workgroups of that many invocations: it is as wide, or so narrow that several of its
/// units fit side by side and do not meet in workgroup memory.
pub fn can_be_stage(kernel: &Kernel, threads: u32) -> bool {
    let width: u32 = kernel.reflection.workgroup_size.iter().product();
    width == threads || (threads.is_multiple_of(width) && !kernel.wgsl.contains("workgroup>"))
}

/// Waits for the stages before.
const MEET: &str = "        meetings++;
        if !meet(lane, meetings) {
            return;
        }
";

fn pool_name(pool: usize) -> String {
    format!("pool{pool}")
}

/// Merges the stages of a layer. Binding 0 is the meeting (three words), binding 1 the table of bases, then come the
/// pools. Its dispatch has `form.workgroups` workgroups.
///
/// # Errors
/// A kernel cannot be a stage, or the device cannot run all of them as one.
pub fn merge(
    parts: &[StagePart<'_>],
    pools: &[Pool],
    form: Form,
    limits: &Limits,
    sources: &Sources,
) -> Result<Kernel, Refusal> {
    for feature in [Feature::Subgroups, Feature::CoherentMemory] {
        if !limits.features.contains(&feature) {
            return Err(Refusal::Feature(feature));
        }
    }
    if !(1..=limits.workgroups_per_dimension).contains(&form.workgroups) {
        return Err(Refusal::Shape("it has no workgroups, or more than the device dispatches"));
    }
    let stages: Vec<Stage> =
        parts.iter().enumerate().map(|(i, part)| Stage::new(i, part, form.threads)).collect::<Result<_, _>>()?;
    let text = text(parts, &stages, pools, form, &read(wgsl!("persistent/meeting.wgsl"), sources)?);
    let mut merged = Specialised::default();
    text.lines().enumerate().for_each(|(i, line)| merged.push(line, ("the persistent step", i + 1)));
    let label = format!("persistent WG={} x{} layers", form.threads, form.layers);
    let numerics = parts.iter().map(|part| part.kernel.numerics).max().unwrap_or_default();
    Ok(Kernel { numerics, ..Kernel::assemble(label, merged, form.workgroups.into(), limits)? })
}

fn text(parts: &[StagePart<'_>], stages: &[Stage], pools: &[Pool], form: Form, meeting: &str) -> String {
    let (mut out, threads) = (String::new(), form.threads);
    let directives: BTreeSet<&String> = stages.iter().flat_map(|s| &s.directives).collect();
    directives.into_iter().for_each(|line| {
        let _ = writeln!(out, "{line}");
    });
    let _ = writeln!(out, "const WORKGROUPS: u32 = {}u;\n{meeting}", form.workgroups);
    let quads = (form.layers as usize * form.columns).div_ceil(4).max(1);
    let _ = writeln!(out, "@group(0) @binding(1) var<uniform> bases: array<vec4<u32>, {quads}>;");
    for (i, pool) in pools.iter().enumerate() {
        // What one workgroup writes and another reads must not come from a cache of its own. A single one has no other.
        let access = match (pool.is_written, form.workgroups) {
            (false, _) => ("", "read"),
            (true, 1) => ("", "read_write"),
            (true, _) => ("@coherent ", "read_write"),
        };
        let (number, name) = (i + 2, pool_name(i));
        let (coherent, access) = access;
        let element = &pool.element;
        let _ =
            writeln!(out, "@group(0) @binding({number}) {coherent}var<storage, {access}> {name}: array<{element}>;");
    }
    let room = stages.iter().map(|s| s.room).max().unwrap_or(0);
    if room > 0 {
        let _ = writeln!(out, "var<workgroup> room: array<vec4<u32>, {room}>;");
    }
    let _ = writeln!(out, "fn base_at(layer: u32, column: u32) -> u32 {{");
    let _ = writeln!(out, "    let i = layer * {}u + column;\n    return bases[i / 4u][i % 4u];\n}}", form.columns);
    stages.iter().for_each(|stage| out += &stage.text);
    let _ = writeln!(
        out,
        "@compute @workgroup_size({threads})\nfn main(\n    @builtin(workgroup_id) workgroup: vec3<u32>,\n    \
         @builtin(local_invocation_index) lane: u32,\n    @builtin(subgroup_id) subgroup: u32,\n    \
         @builtin(num_subgroups) subgroups: u32,\n    @builtin(subgroup_invocation_id) subgroup_lane: u32,\n) {{\n    \
         if is_called_off(lane) {{\n        return;\n    }}\n    var meetings = 0u;\n    \
         for (var layer = 0u; layer < {}u; layer++) {{",
        form.layers
    );
    for (i, (part, stage)) in parts.iter().zip(stages).enumerate() {
        // Before the first stage of all there is nothing to wait for.
        let _ = match (part.meets, i) {
            (true, 0) => writeln!(out, "        if layer > 0u {{\n{MEET}        }}"),
            (true, _) => write!(out, "{MEET}"),
            (false, _) => writeln!(out, "        workgroupBarrier();"),
        };
        for (name, column) in &stage.moving {
            let _ = writeln!(out, "        {name} = base_at(layer, {column}u);");
        }
        let at_once = threads / stage.width;
        let turns = part.units.div_ceil(u64::from(at_once));
        let unit = match at_once {
            1 => "turn".to_owned(),
            n => format!("turn * {n}u + lane / {}u", stage.width),
        };
        let call = format!(
            "let unit = {unit};\n            let units = {}u;\n            {};\n        }}",
            part.units, stage.call
        );
        // A loop of one turn is no loop: compilers make more of that.
        let _ = match turns <= u64::from(form.workgroups) {
            true => writeln!(
                out,
                "        if workgroup.x < {turns}u {{\n            let turn = workgroup.x;\n            {call}"
            ),
            false => writeln!(
                out,
                "        for (var turn = workgroup.x; turn < {turns}u; turn += WORKGROUPS) {{\n            \
                 if turn != workgroup.x {{\n                workgroupBarrier();\n            }}\n            {call}"
            ),
        };
    }
    out += "    }\n    leave(lane);\n}\n";
    out
}
