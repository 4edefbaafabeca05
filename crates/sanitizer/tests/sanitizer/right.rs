//! Shaders that are right: nothing is found.

use crate::tiny::{check, dispatch, shader, words};
use wgoose_sanitizer::{Buffer, BufferRange, Dispatch, Order, Shader};

pub(crate) const LAST_ARRIVER_DECLARATIONS: &str = "var<workgroup> before: u32;";

/// The last workgroup to arrive adds up what all have written.
pub(crate) const LAST_ARRIVER: &str = "parts[group.x * 64u + tid] = tid;
storageBarrier();
workgroupBarrier();
if tid == 0u { before = atomicAdd(&flags[0], 1u); }
let n = workgroupUniformLoad(&before);
storageBarrier();
if n == 3u {
    var sum = 0u;
    for (var i = 0u; i < 4u; i++) { sum += parts[i * 64u + (tid + 1u) % 64u]; }
    y[tid] = sum;
}";

#[track_caller]
fn clean(wgsl: &str) -> Vec<u32> {
    let report = check(wgsl);
    let text: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    assert!(report.is_clean() && report.is_complete, "{}", text.join("\n"));
    words(&report, 0)
}

#[test]
fn a_last_arriver_behind_two_fences_is_right() {
    let y = clean(&shader(LAST_ARRIVER_DECLARATIONS, LAST_ARRIVER));
    assert_eq!(&y[..3], [4, 8, 12]);
}

#[test]
fn a_tree_of_sums_behind_barriers_is_right() {
    let y = clean(&shader(
        "var<workgroup> sums: array<u32, 64>;",
        "sums[tid] = tid;\nfor (var n = 32u; n > 0u; n /= 2u) {\nworkgroupBarrier();\n\
         if tid < n { sums[tid] += sums[tid + n]; }\n}\nworkgroupBarrier();\ny[group.x * 64u + tid] = sums[0];",
    ));
    assert_eq!(y, vec![2016; 256]);
}

#[test]
fn an_atomic_counter_is_right() {
    clean(&shader("", "atomicAdd(&flags[0], 1u);\ny[group.x * 64u + tid] = 1u;"));
}

#[test]
fn a_grid_barrier_with_all_resident_hands_values_over() {
    let wgsl = shader(
        "",
        "parts[group.x * 64u + tid] = tid;\nstorageBarrier();\nworkgroupBarrier();\n\
         if tid == 0u {\natomicAdd(&flags[0], 1u);\nwhile atomicLoad(&flags[0]) < 4u {}\n}\n\
         workgroupBarrier();\nstorageBarrier();\ny[group.x * 64u + tid] = parts[(3u - group.x) * 64u + 63u - tid];",
    );
    assert_eq!(clean(&wgsl)[..2], [63, 62]);
}

#[test]
fn coherent_memory_needs_no_second_fence() {
    let text = |coherent: &str| {
        let wgsl = shader(
            "",
            "parts[group.x * 64u + tid] = tid;\nstorageBarrier();\nworkgroupBarrier();\n\
             if tid == 0u {\natomicAdd(&flags[0], 1u);\nwhile atomicLoad(&flags[0]) < 4u {}\n}\n\
             workgroupBarrier();\ny[group.x * 64u + tid] = parts[(3u - group.x) * 64u + tid];",
        );
        wgsl.replace("@binding(1) var", &format!("@binding(1) {coherent}var"))
    };
    clean(&text("@coherent "));
    assert!(!check(&text("")).is_clean());
}

#[test]
fn invocations_of_one_workgroup_may_wait_for_each_other() {
    clean(&shader(
        "",
        "if tid == 63u { atomicStore(&flags[group.x], 1u); }\nif tid == 0u { while atomicLoad(&flags[group.x]) == 0u {} }\n\
         y[group.x * 64u + tid] = tid;",
    ));
}

#[test]
fn a_lock_that_is_given_back_is_right() {
    clean(&shader(
        "",
        "if tid == 0u {\nwhile atomicExchange(&flags[0], 1u) == 1u {}\natomicStore(&flags[0], 0u);\n}\n\
         y[group.x * 64u + tid] = tid;",
    ));
}

#[test]
fn buffers_keep_what_was_written_for_the_next_dispatch() {
    let writes = Shader::parse(&shader("", "parts[group.x * 64u + tid] = tid;")).unwrap();
    let reads = Shader::parse(&shader("", "y[group.x * 64u + tid] = parts[group.x * 64u + tid];")).unwrap();
    assert!(!reads.run(&dispatch()).unwrap().is_clean());
    let buffers = writes.run(&dispatch()).unwrap().buffers;
    assert!(buffers[1].is_written(0..1024) && !buffers[0].is_written(0..4));
    assert!(reads.run(&Dispatch { buffers, ..dispatch() }).unwrap().is_clean());
}

#[test]
fn variables_may_share_a_buffer() {
    let wgsl = "@group(0) @binding(0) var<storage, read_write> a: array<u32>;
        @group(0) @binding(1) var<storage, read_write> b: array<u32>;
        @compute @workgroup_size(64) fn main(@builtin(local_invocation_index) tid: u32) {
            a[tid] = tid;
            storageBarrier();
            b[63u - tid] += 1u;
        }";
    let range = |offset: usize| BufferRange { buffer: 0, offset, len: 256 };
    let shared = Dispatch::new([1, 1, 1]).bind(0, Buffer::unwritten(256)).bind_range(1, range(0));
    let shader = Shader::parse(wgsl).unwrap();
    let report = shader.run(&shared.clone().in_order(Order::Backward)).unwrap();
    assert!(report.is_clean());
    assert_eq!(words(&report, 0)[..3], [1, 2, 3]);
    let unfenced = Shader::parse(&wgsl.replace("storageBarrier();", "")).unwrap();
    assert!(!unfenced.run(&shared).unwrap().is_clean());
}
