//! Shaders that are wrong in one way each: what is found, and at which lines.

use crate::tiny::{ORDERS, check, dispatch, lines, only, shader, words};
use wgoose_sanitizer::{AccessKind, Buffer, Dispatch, FindingKind, Shader};

#[test]
fn a_missing_workgroup_barrier_is_a_race_with_both_lines() {
    let wgsl = shader("var<workgroup> a: array<u32, 64>;", "a[tid] = tid;\ny[group.x * 64u + tid] = a[63u - tid];");
    let report = Shader::parse(&wgsl).unwrap().run(&dispatch()).unwrap();
    let race = report.findings.iter().find(|f| f.kind == FindingKind::Race).unwrap();
    assert_eq!(race.variable.as_deref(), Some("a"));
    assert_eq!(lines(race), ("a[tid] = tid;", Some("y[group.x * 64u + tid] = a[63u - tid];")));
    assert_eq!((race.first.kind, race.second.as_ref().unwrap().kind), (AccessKind::Write, AccessKind::Read));
    assert_ne!(race.first.invocation, race.second.as_ref().unwrap().invocation);
    assert_eq!(race.first.line + 1, race.second.as_ref().unwrap().line);
    assert_eq!(race.first.column, 1);
}

#[test]
fn a_write_after_a_read_without_a_barrier_is_a_race() {
    let wgsl = shader(
        "var<workgroup> a: array<u32, 64>;",
        "a[tid] = tid;\nworkgroupBarrier();\nlet other = a[63u - tid];\na[tid] = other;\ny[group.x * 64u + tid] = other;",
    );
    let report = check(&wgsl);
    assert!(report.findings.iter().any(|f| {
        f.kind == FindingKind::Race
            && f.first.kind == AccessKind::Read
            && f.second.as_ref().unwrap().text == "a[tid] = other;"
    }));
}

#[test]
fn a_third_reader_is_not_forgotten() {
    // Every invocation of every workgroup reads the word that the last workgroup writes.
    let wgsl = shader("", "y[group.x * 64u + tid] = parts[0];\nif group.x == 2u && tid == 5u { parts[0] = 1u; }");
    let given = dispatch();
    let mut given = Dispatch { buffers: given.buffers.clone(), ..given };
    given.buffers[1] = Buffer::of(vec![0; 1024]);
    let report = Shader::parse(&wgsl).unwrap().run(&given).unwrap();
    // The write races with readers of its own workgroup, and with all of the workgroups before and behind.
    let pairs: Vec<_> = report.findings.iter().map(|f| (f.first.kind, f.second.as_ref().unwrap().kind)).collect();
    assert!(pairs.contains(&(AccessKind::Read, AccessKind::Write)), "{pairs:?}");
    assert!(pairs.contains(&(AccessKind::Write, AccessKind::Read)), "{pairs:?}");
}

#[test]
fn a_barrier_of_the_other_address_space_is_no_barrier() {
    let storage = shader(
        "",
        "y[group.x * 64u + tid] = tid;\nworkgroupBarrier();\nlet other = y[group.x * 64u + 63u - tid];\n\
         storageBarrier();\ny[group.x * 64u + tid] = other;",
    );
    let found = check(&storage);
    assert_eq!(lines(only(&found, FindingKind::WrongBarrier)).0, "y[group.x * 64u + tid] = tid;");
    let workgroup = shader(
        "var<workgroup> a: array<u32, 64>;",
        "a[tid] = tid;\nstorageBarrier();\ny[group.x * 64u + tid] = a[63u - tid];",
    );
    assert_eq!(only(&check(&workgroup), FindingKind::WrongBarrier).variable.as_deref(), Some("a"));
}

/// Scores are written by one thread and read by another, with workgroup barriers between: what
/// `device/sampling/sample.wgsl` once did.
#[test]
fn scores_behind_workgroup_barriers_only_are_found_with_both_lines() {
    let wgsl = shader(
        "var<workgroup> sums: array<u32, 64>;\nvar<workgroup> near: array<u32, 64>;",
        "let row = group.x * 64u;\n\
         parts[row + tid] = tid * 3u;\n\
         sums[tid] = tid;\n\
         workgroupBarrier();\n\
         let drawn = sums[63u] % 64u;\n\
         near[tid] = parts[row + (tid + drawn) % 64u];\n\
         workgroupBarrier();\n\
         y[row + tid] = near[63u - tid];",
    );
    let report = check(&wgsl);
    let found = only(&report, FindingKind::WrongBarrier);
    let expected = ("parts[row + tid] = tid * 3u;", Some("near[tid] = parts[row + (tid + drawn) % 64u];"));
    assert_eq!((lines(found), found.variable.as_deref()), (expected, Some("parts")));
    assert_eq!(found.is_value_dropped, Some(false));
    assert!(check(&wgsl.replacen("workgroupBarrier", "storageBarrier();\nworkgroupBarrier", 1)).is_clean());
}

#[test]
fn a_race_whose_value_is_dropped_says_so() {
    let wgsl = shader(
        "",
        "parts[group.x * 64u + tid] = tid;\n\
         let other = parts[group.x * 64u + (tid + 1u) % 64u];\n\
         y[group.x * 64u + tid] = select(other, 7u, tid < 64u);",
    );
    let report = check(&wgsl);
    let race = report.findings.iter().find(|f| f.kind == FindingKind::Race).unwrap();
    assert_eq!(race.is_value_dropped, Some(true));
}

#[test]
fn indices_out_of_bounds_are_found_in_every_kind_of_memory() {
    let bound = shader("", "y[group.x * 64u + tid + 1u] = tid;");
    let found = check(&bound);
    assert_eq!(only(&found, FindingKind::OutOfBounds).detail, "index 256 of 256 elements");
    let workgroup = shader("var<workgroup> a: array<u32, 64>;", "a[tid + 1u] = 1u;\ny[group.x * 64u + tid] = 1u;");
    assert_eq!(only(&check(&workgroup), FindingKind::OutOfBounds).variable.as_deref(), Some("a"));
    let registers = shader("", "var a = array<u32, 4>();\na[tid / 16u + 1u] = 1u;\ny[group.x * 64u + tid] = a[0];");
    assert_eq!(only(&check(&registers), FindingKind::OutOfBounds).variable, None);
    let negative = shader("", "let i = i32(tid) - 1;\ny[group.x * 64u + u32(max(i, 0))] = parts[i];");
    let report = check(&negative);
    assert!(report.findings.iter().any(|f| f.kind == FindingKind::OutOfBounds && f.count == 12));
}

#[test]
fn what_is_out_of_bounds_is_neither_written_nor_counted_twice() {
    let wgsl = shader(
        "var<workgroup> a: array<u32, 64>;",
        "a[tid + 1u] = 1u;\nworkgroupBarrier();\ny[group.x * 64u + tid] = a[max(tid, 1u)];",
    );
    let report = check(&wgsl);
    assert_eq!(only(&report, FindingKind::OutOfBounds).count, 12);
}

#[test]
fn reads_of_what_nobody_wrote_are_found() {
    let workgroup = shader("var<workgroup> a: array<u32, 64>;", "y[group.x * 64u + tid] = a[tid];");
    assert_eq!(only(&check(&workgroup), FindingKind::UnwrittenWorkgroup).detail, "byte 0");
    let storage = shader(
        "",
        "if tid > 3u { parts[group.x * 64u + tid] = 1u; }\ny[group.x * 64u + tid] = parts[group.x * 64u + tid];",
    );
    let report = check(&storage);
    assert_eq!(only(&report, FindingKind::UnwrittenStorage).count, 3 * 16);
    let atomic = shader("var<workgroup> n: atomic<u32>;", "atomicAdd(&n, 1u);\ny[group.x * 64u + tid] = 1u;");
    assert_eq!(only(&check(&atomic), FindingKind::UnwrittenWorkgroup).count, 3 * 4);
}

#[test]
fn a_barrier_that_some_never_reach_is_divergent() {
    let wgsl = shader("", "if tid < 32u { workgroupBarrier(); }\ny[group.x * 64u + tid] = tid;");
    let report = check(&wgsl);
    let found = only(&report, FindingKind::DivergentBarrier);
    assert_eq!(found.first.kind, AccessKind::Barrier);
    assert!(found.first.text.contains("workgroupBarrier"));
}

#[test]
fn two_barriers_in_two_branches_are_divergent() {
    let wgsl = shader(
        "",
        "if tid < 32u {\nworkgroupBarrier();\n} else {\nstorageBarrier();\n}\ny[group.x * 64u + tid] = tid;",
    );
    let report = check(&wgsl);
    let found = only(&report, FindingKind::DivergentBarrier);
    assert_eq!(found.second.as_ref().unwrap().kind, AccessKind::Barrier);
    assert_ne!(found.first.line, found.second.as_ref().unwrap().line);
}

#[test]
fn one_barrier_in_two_iterations_is_divergent() {
    let wgsl = shader(
        "",
        "for (var i = 0u; i < 3u; i++) {\nif i == 0u && tid < 32u { continue; }\nworkgroupBarrier();\n}\n\
         y[group.x * 64u + tid] = tid;",
    );
    let report = check(&wgsl);
    let kinds: Vec<_> = report.findings.iter().map(|f| f.kind).collect();
    assert!(report.findings.iter().any(|f| f.detail == "in different iterations or calls"), "{kinds:?}");
}

#[test]
fn a_subgroup_operation_in_a_branch_is_divergent() {
    let wgsl =
        shader("", "var sum = 0u;\nif tid % 2u == 0u { sum = subgroupAdd(tid); }\ny[group.x * 64u + tid] = sum;");
    let report = check(&wgsl);
    assert_eq!(only(&report, FindingKind::DivergentSubgroup).detail, "16 of 32 invocations are there");
}

#[test]
fn a_shuffle_from_nobody_is_found() {
    let wgsl = shader("", "y[group.x * 64u + tid] = subgroupShuffle(tid, lane + 1u);");
    let report = check(&wgsl);
    assert_eq!(only(&report, FindingKind::DivergentSubgroup).detail, "a value of lane 32, which is not there");
}

#[test]
fn workgroups_that_write_one_word_race_and_depend_on_their_order() {
    let wgsl = shader("", "if tid == 0u { y[0] = group.x; }");
    let report = check(&wgsl);
    let kinds: Vec<_> = report.findings.iter().map(|f| f.kind).collect();
    assert!(kinds.contains(&FindingKind::Race) && kinds.contains(&FindingKind::OrderDependence), "{kinds:?}");
    let race = report.findings.iter().find(|f| f.kind == FindingKind::Race).unwrap();
    assert_ne!(race.first.workgroup, race.second.as_ref().unwrap().workgroup);
}

#[test]
fn a_result_that_depends_on_who_comes_first_is_found_without_a_race() {
    let wgsl = shader("", "let place = atomicAdd(&flags[0], 1u);\ny[group.x * 64u + tid] = place;");
    let report = check(&wgsl);
    let found = only(&report, FindingKind::OrderDependence);
    assert_eq!((found.variable.as_deref(), found.first.text.as_str()), (Some("y"), "y[group.x * 64u + tid] = place;"));
}

#[test]
fn a_last_arriver_without_its_fence_races_across_workgroups() {
    let wgsl = crate::right::LAST_ARRIVER.replacen("storageBarrier();\n", "", 1);
    let report = check(&shader(crate::right::LAST_ARRIVER_DECLARATIONS, &wgsl));
    let found =
        report.findings.iter().find(|f| matches!(f.kind, FindingKind::Race | FindingKind::WrongBarrier)).unwrap();
    assert_eq!(found.first.text, "parts[group.x * 64u + tid] = tid;");
}

#[test]
fn a_wait_that_nobody_ends_is_found_where_too_few_workgroups_are_resident() {
    let wgsl = shader(
        "",
        "if tid == 0u {\natomicAdd(&flags[0], 1u);\nwhile atomicLoad(&flags[0]) < 4u {}\n}\n\
         workgroupBarrier();\ny[group.x * 64u + tid] = tid;",
    );
    let shader = Shader::parse(&wgsl).unwrap();
    for order in ORDERS {
        let all = shader.run(&dispatch().in_order(order)).unwrap();
        assert!(all.is_complete && all.is_clean(), "{order:?}");
        let three = shader.run(&dispatch().in_order(order).with_resident(3)).unwrap();
        let found = only(&three, FindingKind::EndlessWait);
        assert_eq!((three.is_complete, found.detail.as_str()), (false, "3 of 4 workgroups may be resident"));
        assert_eq!(found.first.text, "while atomicLoad(&flags[0]) < 4u {}");
    }
}

#[test]
fn a_wait_with_a_limit_that_only_the_limit_ends_is_found() {
    let wgsl = shader(
        "",
        "var spins = 0u;\nwhile atomicLoad(&flags[1]) == 0u && spins < 60000u { spins++; }\ny[group.x * 64u + tid] = 1u;",
    );
    only(&Shader::parse(&wgsl).unwrap().run(&dispatch()).unwrap(), FindingKind::EndlessWait);
}

#[test]
fn a_comment_allows_a_finding_of_its_kind_only() {
    let line = "y[0] = group.x;";
    let allow =
        |kind: &str| shader("", &format!("if tid == 0u {{\n{line} // sanitizer: allow {kind}: the last may win\n}}"));
    let report = check(&allow("race"));
    let faults: Vec<_> = report.faults().map(|f| f.kind).collect();
    assert_eq!(faults, [FindingKind::OrderDependence]);
    assert_eq!(report.findings[0].allowed.as_deref(), Some("the last may win"));
    assert!(check(&allow("out-of-bounds")).faults().any(|f| f.kind == FindingKind::Race));
}

#[test]
fn a_dropped_race_is_allowed_only_while_it_is_dropped() {
    let text = |value: &str| {
        let body = format!(
            "parts[group.x * 64u + tid] = tid;\n\
             // sanitizer: allow dropped-race: the neighbour's value is for nobody\n\
             let other = parts[group.x * 64u + (tid + 1u) % 64u];\n\
             y[group.x * 64u + tid] = select(other, 7u, {value});"
        );
        shader("", &body)
    };
    let given = Dispatch {
        buffers: vec![Buffer::unwritten(1024), Buffer::of(vec![0; 1024]), Buffer::of(vec![0; 64])],
        ..dispatch()
    };
    let check = |value: &str| Shader::parse(&text(value)).unwrap().check(&given, &ORDERS).unwrap();
    let dropped = check("tid < 64u");
    assert!(dropped.is_clean() && !dropped.findings.is_empty());
    assert!(check("tid < 63u").faults().any(|fault| fault.kind == FindingKind::Race));
}

#[test]
fn findings_of_the_loser_of_an_order_are_of_every_order() {
    // Only the last of many to arrive reads, and only in one order is that workgroup 0.
    let wgsl = shader(
        "",
        "if tid == 0u {\nlet place = atomicAdd(&flags[0], 1u);\nif place == 3u && group.x == 0u { y[500] = 1u; }\n}\n\
         parts[group.x * 64u + tid] = 1u;",
    );
    let shader = Shader::parse(&wgsl).unwrap();
    assert!(shader.run(&dispatch()).unwrap().is_clean());
    let report = shader.check(&dispatch(), &ORDERS).unwrap();
    assert!(report.findings.iter().any(|f| f.kind == FindingKind::OutOfBounds));
    assert_eq!(words(&report, 1), vec![1; 256]);
}
