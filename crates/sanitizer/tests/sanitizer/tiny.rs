//! The shaders here have three buffers and a workgroup of 64.

use wgoose_sanitizer::{Buffer, Dispatch, Finding, FindingKind, Order, Report, Shader};

/// Both plain orders and a random one.
pub(crate) const ORDERS: [Order; 3] = [Order::Forward, Order::Backward, Order::Random { seed: 7 }];

/// Words of `y` and `parts`.
pub(crate) const WORDS: usize = 256;

/// Declarations and a head of `main` before a body.
pub(crate) fn shader(declarations: &str, body: &str) -> String {
    format!(
        "enable f16;\n@group(0) @binding(0) var<storage, read_write> y: array<u32>;\n\
         @group(0) @binding(1) var<storage, read_write> parts: array<u32>;\n\
         @group(0) @binding(2) var<storage, read_write> flags: array<atomic<u32>>;\n\
         {declarations}\n\
         @compute @workgroup_size(64) fn main(\n\
             @builtin(local_invocation_index) tid: u32, @builtin(workgroup_id) group: vec3<u32>,\n\
             @builtin(subgroup_invocation_id) lane: u32, @builtin(subgroup_size) lanes: u32,\n\
         ) {{\n{body}\n    if lanes == 0u {{ y[0] = lane + parts[0] + atomicLoad(&flags[0]); }}\n}}\n"
    )
}

/// Four workgroups, `y` and `parts` unwritten, `flags` zero.
pub(crate) fn dispatch() -> Dispatch {
    Dispatch::new([4, 1, 1])
        .bind(0, Buffer::unwritten(4 * WORDS))
        .bind(1, Buffer::unwritten(4 * WORDS))
        .bind(2, Buffer::of(vec![0; 64]))
}

pub(crate) fn check(wgsl: &str) -> Report {
    Shader::parse(wgsl).unwrap().check(&dispatch(), &ORDERS).unwrap()
}

/// The only kind of finding, and the first of that kind.
pub(crate) fn only(report: &Report, kind: FindingKind) -> &Finding {
    let text: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    assert!(!report.findings.is_empty(), "nothing was found, not even {kind}");
    assert!(report.findings.iter().all(|finding| finding.kind == kind), "{}", text.join("\n"));
    &report.findings[0]
}

/// The text of the lines of a finding.
pub(crate) fn lines(finding: &Finding) -> (&str, Option<&str>) {
    (&finding.first.text, finding.second.as_ref().map(|second| second.text.as_str()))
}

/// The words of a buffer.
pub(crate) fn words(report: &Report, buffer: usize) -> Vec<u32> {
    let words = report.buffers[buffer].bytes().chunks_exact(4);
    words.map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect()
}
