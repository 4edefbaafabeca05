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
    /// In the table of bases: the column.
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
    /// Columns of the table of bases.
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

fn pool_name(pool: usize) -> String {
    format!("pool{pool}")
}

/// What a device must have for it.
pub const NEEDS: [Feature; 2] = [Feature::Subgroups, Feature::CoherentMemory];

/// Bytes of the table of bases: what every device binds as uniforms.
pub const TABLE: usize = 16 << 10;

/// What the table of bases holds before the bases, `[layers, columns]`: how many layers there are.
pub fn table_head(layers: u32) -> [u32; 4] {
    [layers, 0, 0, 0]
}

/// Merges the stages of a layer. Binding 0 is the meeting (three words), binding 1 the table of bases of [`TABLE`] bytes, then
/// come the pools. Its dispatch has `form.workgroups` workgroups. It is one kernel for any number of layers: the code of
/// another would have to be fetched anew.
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
    for feature in NEEDS {
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
    let label = format!("persistent WG={}", form.threads);
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
    let _ = writeln!(out, "@group(0) @binding(1) var<uniform> bases: array<vec4<u32>, {}>;", TABLE / 16);
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
    let head = table_head(0).len();
    let _ = writeln!(
        out,
        "    let i = {head}u + layer * {}u + column;\n    return bases[i / 4u][i % 4u];\n}}",
        form.columns
    );
    let groups = groups(parts, stages, form);
    for (number, stage) in stages.iter().enumerate() {
        let inside = groups.iter().any(|group| group.waits == Waits::Inside && group.stages[0] == number);
        if let Some(hook) = &stage.hook {
            let result = if inside { "wait(lane)" } else { "0u" };
            let _ = writeln!(out, "fn {hook}(lane: u32) -> u32 {{ return {result}; }}");
        }
        out += &stage.text;
    }
    let _ = writeln!(
        out,
        "@compute @workgroup_size({threads})\nfn main(\n    @builtin(workgroup_id) workgroup: vec3<u32>,\n    \
         @builtin(local_invocation_index) lane: u32,\n    @builtin(subgroup_id) subgroup: u32,\n    \
         @builtin(num_subgroups) subgroups: u32,\n    @builtin(subgroup_invocation_id) subgroup_lane: u32,\n) {{\n    \
         if is_called_off(lane) {{\n        return;\n    }}\n    \
         for (var layer = 0u; layer < bases[0].x; layer++) {{"
    );
    for group in &groups {
        // Before the first stage of all there is nothing to wait for.
        out += match group.is_first {
            true => "        if layer > 0u {\n            arrive(lane);\n        }\n",
            false => "        arrive(lane);\n",
        };
        if group.waits == Waits::Before {
            let _ = writeln!(out, "        wait(lane);\n        {ACQUIRE}\n        {LEAVE}");
        }
        let mut taken = 0;
        for (place, &number) in group.stages.iter().enumerate() {
            if place > 0 {
                out += "        workgroupBarrier();\n";
            }
            let (part, stage) = (&parts[number], &stages[number]);
            for (name, column) in &stage.moving {
                let _ = writeln!(out, "        {name} = base_at(layer, {column}u);");
            }
            let ordered = match (group.waits, place) {
                (Waits::Before, _) => Ordered::Already,
                (Waits::Inside, 0) => Ordered::ByItself,
                (Waits::Inside, _) => Ordered::Now,
            };
            taken = turns(&mut out, (part.units, threads / stage.width), stage, form, (taken, ordered));
        }
    }
    out += "    }\n    leave(lane);\n}\n";
    out
}

/// Stages that need not wait for each other.
struct Group {
    is_first: bool,
    waits: Waits,
    /// Which, in the order in which they are called.
    stages: Vec<usize>,
}

/// Where the stages of a group wait for those before them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waits {
    /// Before the first of them.
    Before,
    /// Inside the first of them, once it has sent for what no other stage makes.
    Inside,
}

/// How what others wrote is kept from being read before the wait.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ordered {
    /// There was a barrier of storage for all stages of the group.
    Already,
    /// The stage waits, and reads from places that depend on that.
    ByItself,
    /// Another stage of the group has waited.
    Now,
}

/// A barrier of storage. It also waits for all that is on its way.
const ACQUIRE: &str = "storageBarrier();";

/// Ends a step whose workgroups did not all come.
const LEAVE: &str = "if has_failed() {\n            return;\n        }";

fn groups(parts: &[StagePart<'_>], stages: &[Stage], form: Form) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (i, part) in parts.iter().enumerate() {
        match groups.last_mut() {
            Some(group) if !part.meets => group.stages.push(i),
            _ => groups.push(Group { is_first: i == 0, waits: Waits::Before, stages: vec![i] }),
        }
    }
    for group in &mut groups {
        // Once in each workgroup, by all of its invocations.
        let can_wait = |i: &usize| {
            let (part, stage) = (&parts[*i], &stages[*i]);
            stage.hook.is_some() && stage.width == form.threads && part.units <= u64::from(form.workgroups)
        };
        if let Some(at) = group.stages.iter().position(can_wait) {
            group.stages[..=at].rotate_right(1);
            group.waits = Waits::Inside;
        }
    }
    groups
}

/// Calls a stage for all of its units: `(units, how many at once)`. Of the workgroups, `taken` have a stage of the same
/// group; as many are left to those who come after. Returns how many are taken now.
fn turns(
    out: &mut String,
    (units, at_once): (u64, u32),
    stage: &Stage,
    form: Form,
    (taken, ordered): (u64, Ordered),
) -> u64 {
    let turns = units.div_ceil(u64::from(at_once));
    let workgroups = u64::from(form.workgroups);
    let unit = match at_once {
        1 => "turn".to_owned(),
        n => format!("turn * {n}u + lane / {}u", stage.width),
    };
    let acquire = if ordered == Ordered::Now { ACQUIRE } else { "" };
    let call =
        format!("let unit = {unit};\n            let units = {units}u;\n            {};\n        }}", stage.call);
    // A loop of one turn is no loop: compilers make more of that.
    if turns > workgroups {
        let _ = writeln!(
            out,
            "        {acquire}\n        for (var turn = workgroup.x; turn < {turns}u; turn += WORKGROUPS) {{\n            \
             if turn != workgroup.x {{\n                workgroupBarrier();\n            }}\n            {call}"
        );
        return taken;
    }
    let first = if taken + turns <= workgroups { taken } else { 0 };
    let _ = writeln!(
        out,
        "        if workgroup.x >= {first}u && workgroup.x < {}u {{\n            let turn = workgroup.x - {first}u;\n            \
         {acquire}\n            {call}",
        first + turns
    );
    if ordered == Ordered::ByItself {
        if turns < workgroups {
            out.insert_str(out.trim_end().len(), " else {\n            wait(lane);\n        }");
        }
        let _ = writeln!(out, "        {LEAVE}");
    }
    first + turns
}
