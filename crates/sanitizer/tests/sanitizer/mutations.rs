//! A shader without one of its barriers or tests is found wrong.

use crate::tiny::{ORDERS, dispatch, shader};
use wgoose_sanitizer::{MutationKind, Shader};

#[test]
fn everything_that_is_taken_away_is_missed() {
    let wgsl = shader(
        "var<workgroup> a: array<u32, 64>;",
        "a[tid] = tid;\nworkgroupBarrier();\nlet at = group.x * 80u + tid;\nlet value = a[min(tid + 1u, 63u)];\n\
         if at < 256u { parts[at] = value; }\nstorageBarrier();\nif at >= 192u { return; }\ny[at] = parts[at ^ 1u];",
    );
    let whole = Shader::parse(&wgsl).unwrap();
    let before = whole.check(&dispatch(), &ORDERS).unwrap();
    assert!(before.is_clean(), "{:#?}", before.findings);
    let mutations = whole.mutations().unwrap();
    let kinds: Vec<_> = mutations.iter().map(|mutation| mutation.kind).collect();
    use MutationKind::{BoundsTest, Clamp, StorageBarrier, WorkgroupBarrier};
    assert_eq!(kinds, [WorkgroupBarrier, Clamp, BoundsTest, StorageBarrier, BoundsTest]);
    for mutation in mutations {
        let report = whole.without(&mutation).check(&dispatch(), &ORDERS).unwrap();
        assert!(!report.is_clean(), "{} at line {}", mutation.kind, mutation.line);
    }
}
