//! Linking: the texts of several kernels as one, the persistent kernel of a run of layers.
//!
//! A stage is a kernel's final text: its module-scope names get a prefix, its entry point becomes a function that is
//! called for one workgroup index after another, its operands are read from bound buffers at offsets. Dependent stages
//! are separated by a grid barrier (`kernels-wgsl/device/grid_barrier.wgsl`), before the stage or inside it, or
//! synchronise by ready flags (`kernels-wgsl/device/announced.wgsl`).

mod announced;
mod operand;
mod part;
mod stage;
mod together;

pub use announced::{Announcing, CellCopy};
pub use part::{AnnouncedOperand, BufferSlice, Cells, Offset};
pub(crate) use part::{NotAStage, Part};

use super::Text;
use part::buffer_name;
use stage::Stage;
use std::collections::BTreeSet;
use std::fmt::Write;
use together::together;

/// Bytes of the offset table: what every device binds as uniforms.
pub(crate) const OFFSET_TABLE: usize = 16 << 10;

/// Words before the offsets in that table.
pub(crate) const TABLE_HEAD: usize = 4;

/// A buffer as an array of one type; binding 2 + its index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundBuffer {
    /// WGSL type of the elements.
    pub element: String,
    /// Whether any stage writes the buffer, through this binding or another.
    pub is_written: bool,
}

/// How the stages are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Columns of the offset table.
    pub columns: usize,
    /// Workgroups; all must be resident.
    pub workgroups: u32,
    /// Threads of each.
    pub threads: u32,
}

/// One text for all stages of a layer. `barrier` is the text of the grid barrier, `announcing` says what announces itself, and
/// has the text for that.
///
/// # Errors
/// A kernel that cannot be a stage.
pub(crate) fn link(
    parts: &[Part<'_>],
    buffers: &[BoundBuffer],
    launch: Launch,
    barrier: &str,
    announcing: Option<(&Announcing, &str)>,
) -> Result<Text, NotAStage> {
    let stages: Vec<Stage> =
        parts.iter().enumerate().map(|(i, part)| Stage::new(i, part, launch.threads)).collect::<Result<_, _>>()?;
    let mut text = head(&stages, buffers, launch, barrier);
    match announcing {
        Some((announcing, device)) => {
            text += &announced::declarations(announcing, buffers.len(), device);
            stages.iter().for_each(|stage| text += &together(&stage.with_dependency_wait("0u")));
            text += &main(&announced::body(parts, &stages, launch, announcing), launch);
        }
        None => {
            let groups = groups(parts, &stages, launch);
            for (number, stage) in stages.iter().enumerate() {
                let inside = groups.iter().any(|group| group.waits == Waits::Inside && group.stages[0] == number);
                text += &stage.with_dependency_wait(if inside { "wait(tid)" } else { "0u" });
            }
            text += &main(&layers(parts, &stages, launch, &groups), launch);
        }
    }
    Ok(Text::of("the persistent kernel", text))
}

/// What all stages share.
fn head(stages: &[Stage], buffers: &[BoundBuffer], launch: Launch, barrier: &str) -> String {
    let mut out = String::new();
    let directives: BTreeSet<&String> = stages.iter().flat_map(|s| &s.directives).collect();
    directives.into_iter().for_each(|line| {
        let _ = writeln!(out, "{line}");
    });
    let _ = writeln!(out, "const WORKGROUPS: u32 = {}u;\n{barrier}", launch.workgroups);
    let _ = writeln!(out, "@group(0) @binding(1) var<uniform> offsets: array<vec4<u32>, {}>;", OFFSET_TABLE / 16);
    for (i, buffer) in buffers.iter().enumerate() {
        // What one workgroup writes and another reads must not come from a cache of its own. A single one has no other.
        let (coherent, access) = match (buffer.is_written, launch.workgroups) {
            (false, _) => ("", "read"),
            (true, 1) => ("", "read_write"),
            (true, _) => ("@coherent ", "read_write"),
        };
        let (number, name, element) = (i + 2, buffer_name(i), &buffer.element);
        let _ =
            writeln!(out, "@group(0) @binding({number}) {coherent}var<storage, {access}> {name}: array<{element}>;");
    }
    let scratch = stages.iter().map(|s| s.scratch).max().unwrap_or(0);
    if scratch > 0 {
        let _ = writeln!(out, "var<workgroup> scratch: array<vec4<u32>, {scratch}>;");
    }
    let _ = writeln!(
        out,
        "fn offset_at(layer: u32, column: u32) -> u32 {{\n    let i = {TABLE_HEAD}u + layer * {}u + column;\n    \
         return offsets[i / 4u][i % 4u];\n}}",
        launch.columns
    );
    out
}

/// The entry point with this body.
fn main(body: &str, launch: Launch) -> String {
    format!(
        "@compute @workgroup_size({})\nfn main(\n    @builtin(workgroup_id) workgroup: vec3<u32>,\n    \
         @builtin(local_invocation_index) tid: u32,\n    @builtin(subgroup_id) subgroup: u32,\n    \
         @builtin(num_subgroups) num_subgroups: u32,\n    @builtin(subgroup_invocation_id) lane: u32,\n) {{\n\
         {body}    leave(tid);\n}}\n",
        launch.threads
    )
}

/// The layers, one after another, with a grid barrier before each group of stages.
fn layers(parts: &[Part<'_>], stages: &[Stage], launch: Launch, groups: &[Group]) -> String {
    let mut out = format!("    {UNLESS_ABORTED}\n    {EACH_LAYER}\n");
    for group in groups {
        // Before the first stage of all there is nothing to wait for.
        out += match group.is_first {
            true => "        if layer > 0u {\n            arrive(tid);\n        }\n",
            false => "        arrive(tid);\n",
        };
        if group.waits == Waits::Before {
            let _ = writeln!(out, "        wait(tid);\n        {ACQUIRE}\n        {LEAVE}");
        }
        let mut taken = 0;
        for (place, &number) in group.stages.iter().enumerate() {
            if place > 0 {
                out += "        workgroupBarrier();\n";
            }
            let (part, stage) = (&parts[number], &stages[number]);
            stage.load_offsets(&mut out);
            let ordered = match (group.waits, place) {
                (Waits::Before, _) => Ordered::Already,
                (Waits::Inside, 0) => Ordered::ByItself,
                (Waits::Inside, _) => Ordered::Now,
            };
            taken = calls(&mut out, part.workgroups, stage, launch, (taken, ordered));
        }
    }
    out += "    }\n";
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
    /// Inside the first of them, once it has issued all loads that depend on no other stage.
    Inside,
}

/// What keeps a stage from reading too early what others write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ordered {
    /// A storage barrier before all stages of the group.
    Already,
    /// The stage waits, and the indices of its dependent loads depend on that.
    ByItself,
    /// Another stage of the group has waited.
    Now,
    /// The values announce themselves. Stages share workgroup memory.
    ByValues,
}

/// Nothing runs until the host has seen that an earlier step timed out.
const UNLESS_ABORTED: &str = "if is_aborted(tid) {\n        return;\n    }";

/// The head of a loop over the layers.
const EACH_LAYER: &str = "for (var layer = 0u; layer < offsets[0].x; layer++) {";

/// A storage barrier. It also waits for all loads in flight.
const ACQUIRE: &str = "storageBarrier();";

/// Ends a step whose grid barrier timed out.
const LEAVE: &str = "if has_timed_out() {\n            return;\n        }";

fn groups(parts: &[Part<'_>], stages: &[Stage], launch: Launch) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (i, part) in parts.iter().enumerate() {
        match groups.last_mut() {
            Some(group) if !part.needs_grid_sync => group.stages.push(i),
            _ => groups.push(Group { is_first: i == 0, waits: Waits::Before, stages: vec![i] }),
        }
    }
    for group in &mut groups {
        // Once in each workgroup, by all of its threads.
        let can_wait = |i: &usize| {
            let (part, stage) = (&parts[*i], &stages[*i]);
            let has_hook = stage.dependency_wait.is_some();
            has_hook && stage.threads == launch.threads && part.workgroups <= u64::from(launch.workgroups)
        };
        if let Some(at) = group.stages.iter().position(can_wait) {
            group.stages[..=at].rotate_right(1);
            group.waits = Waits::Inside;
        }
    }
    groups
}

/// Calls a stage for all of its workgroup indices. Of the resident workgroups, `taken` have a
/// stage of the same group; as many are left to those that follow. Returns how many are taken now.
fn calls(out: &mut String, indices: u64, stage: &Stage, launch: Launch, (taken, ordered): (u64, Ordered)) -> u64 {
    let at_once = launch.threads / stage.threads;
    let iterations = iterations(indices, stage, launch);
    let workgroups = u64::from(launch.workgroups);
    let index = match at_once {
        1 => "iteration".to_owned(),
        n => format!("iteration * {n}u + tid / {}u", stage.threads),
    };
    let (place, acquire) = match ordered {
        Ordered::Already | Ordered::ByItself => ("workgroup.x", ""),
        Ordered::Now => ("workgroup.x", ACQUIRE),
        Ordered::ByValues => ("place", "workgroupBarrier();"),
    };
    let call =
        format!("let index = {index};\n            let count = {indices}u;\n            {};\n        }}", stage.call);
    // A loop of one iteration is no loop: compilers make more of that.
    if iterations > workgroups {
        let _ = writeln!(
            out,
            "        {acquire}\n        for (var iteration = {place}; iteration < {iterations}u; iteration += WORKGROUPS) {{\n            \
             if iteration != {place} {{\n                workgroupBarrier();\n            }}\n            {call}"
        );
        return taken;
    }
    let first = if taken + iterations <= workgroups { taken } else { 0 };
    let _ = writeln!(
        out,
        "        if {place} >= {first}u && {place} < {}u {{\n            let iteration = {place} - {first}u;\n            \
         {acquire}\n            {call}",
        first + iterations
    );
    if ordered == Ordered::ByItself {
        if iterations < workgroups {
            out.insert_str(out.trim_end().len(), " else {\n            wait(tid);\n        }");
        }
        let _ = writeln!(out, "        {LEAVE}");
    }
    first + iterations
}

/// How many workgroups have a stage's work, or how often one has, if there are fewer.
fn iterations(indices: u64, stage: &Stage, launch: Launch) -> u64 {
    indices.div_ceil(u64::from(launch.threads / stage.threads))
}
