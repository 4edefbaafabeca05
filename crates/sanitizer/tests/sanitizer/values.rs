//! Values that shaders compute: f16, integer dot products, subgroups, matrices, pointers, control flow.

use crate::tiny::{check, shader, words};
use wgoose_sanitizer::{Buffer, Dispatch, FindingKind, Order, Shader};

/// The words of `y` of a shader without findings.
#[track_caller]
fn y(declarations: &str, body: &str) -> Vec<u32> {
    let report = check(&shader(declarations, body));
    let text: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    assert!(report.is_clean(), "{}", text.join("\n"));
    words(&report, 0)
}

#[test]
fn f16_is_rounded_at_every_operation() {
    let y = y(
        "",
        "let one = f16(1.0);\nlet small = f16(0.0004);\ny[group.x * 64u + tid] = bitcast<u32>(f32((one + small) + small));",
    );
    assert_eq!(f32::from_bits(y[0]), 1.0);
}

#[test]
fn f16_memory_is_watched_by_the_half_word() {
    let declarations = "var<workgroup> a: array<f16, 64>;";
    let right = "a[tid] = f16(tid);\nworkgroupBarrier();\ny[group.x * 64u + tid] = u32(a[63u - tid]);";
    assert_eq!(y(declarations, right)[..2], [63, 62]);
    let wrong = right.replace("workgroupBarrier();", "");
    assert!(check(&shader(declarations, &wrong)).findings.iter().any(|f| f.kind == FindingKind::Race));
}

#[test]
fn dot_products_of_bytes_are_signed() {
    let y = y(
        "",
        "y[group.x * 64u + tid] = u32(dot4I8Packed(0xff010203u, 0x02030405u) + i32(dot4U8Packed(0xff000000u, 0x02000000u)));",
    );
    assert_eq!(y[0], (-2 + 3 + 8 + 15 + 510) as u32);
}

#[test]
fn subgroup_operations_see_their_subgroup_at_every_size() {
    let wgsl = shader(
        "",
        "let sum = subgroupAdd(1u);\nlet before = subgroupExclusiveAdd(1u);\nlet other = subgroupShuffleXor(lane, 1u);\n\
         let first = subgroupBroadcastFirst(tid);\nlet votes = countOneBits(subgroupBallot(lane < 3u).x);\n\
         y[group.x * 64u + tid] = sum + 100u * u32(before == lane) + 1000u * u32(other == (lane ^ 1u)) \
         + 10000u * u32(first == tid - lane) + 100000u * votes;",
    );
    for lanes in [4, 8, 16, 32, 64] {
        let dispatch = crate::tiny::dispatch().with_subgroups_of(lanes).in_order(Order::Random { seed: 3 });
        let report = Shader::parse(&wgsl).unwrap().run(&dispatch).unwrap();
        assert!(report.is_clean());
        assert_eq!(words(&report, 0), vec![311_100 + lanes; 256]);
    }
}

#[test]
fn matrices_multiply_and_their_loads_are_watched() {
    let wgsl = |barrier: &str| {
        format!(
            "enable f16;\nenable wgpu_cooperative_matrix;\n\
             var<workgroup> a: array<f16, 64>;\nvar<workgroup> b: array<f16, 64>;\n\
             @group(0) @binding(0) var<storage, read_write> y: array<f32>;\n\
             @compute @workgroup_size(32) fn main(@builtin(local_invocation_index) tid: u32) {{\n\
             for (var i = tid; i < 64u; i += 32u) {{\na[i] = f16(i % 8u);\nb[i] = f16(f32(i / 8u == i % 8u));\n}}\n\
             {barrier}\n\
             let left = coopLoadT<coop_mat8x8<f16, A>>(&a[0], 8u);\n\
             let right = coopLoadT<coop_mat8x8<f16, B>>(&b[0], 8u);\n\
             let sum = coopMultiplyAdd(left, right, coop_mat8x8<f32, C>());\n\
             coopStoreT(sum, &y[0], 8u);\n}}"
        )
    };
    let dispatch = Dispatch::new([1, 1, 1]).bind(0, Buffer::unwritten(256));
    let run = |wgsl: &str| Shader::parse(wgsl).unwrap().check(&dispatch, &crate::tiny::ORDERS).unwrap();
    let right = run(&wgsl("workgroupBarrier();"));
    assert!(right.is_clean());
    let y: Vec<f32> = words(&right, 0).into_iter().map(f32::from_bits).collect();
    assert_eq!(y, (0..64).map(|i| (i % 8) as f32).collect::<Vec<f32>>());
    let wrong = run(&wgsl(""));
    assert!(wrong.findings.iter().any(|f| f.kind == FindingKind::Race && f.variable.as_deref() == Some("a")));
    let beyond = run(&wgsl("workgroupBarrier();").replace("&y[0], 8u", "&y[0], 9u"));
    assert!(beyond.findings.iter().any(|f| f.kind == FindingKind::OutOfBounds));
    let apart = run(&wgsl("workgroupBarrier();").replace("&a[0], 8u", "&a[tid / 16u], 7u"));
    assert!(apart.findings.iter().any(|f| f.kind == FindingKind::NonUniformMatrix));
}

#[test]
fn an_alias_is_the_memory_of_its_original() {
    let wgsl = "enable f16;
        var<workgroup> tile: array<vec4<u32>, 4>;
        var<workgroup> tile_as_f32: array<vec4<f32>, 1>;
        @group(0) @binding(0) var<storage, read_write> y: array<f32>;
        @compute @workgroup_size(4) fn main(@builtin(local_invocation_index) tid: u32) {
            tile[tid] = bitcast<vec4<u32>>(vec4(f32(tid)));
            workgroupBarrier();
            y[tid] = tile_as_f32[3u - tid].x;
        }";
    let dispatch = Dispatch::new([1, 1, 1]).bind(0, Buffer::unwritten(16));
    let plain = Shader::parse(wgsl).unwrap().run(&dispatch).unwrap();
    assert!(plain.findings.iter().any(|f| f.kind == FindingKind::OutOfBounds));
    let aliased = Shader::parse_with_aliases(wgsl, &["_as_f32"]).unwrap().run(&dispatch).unwrap();
    assert!(aliased.is_clean());
    assert_eq!(words(&aliased, 0).into_iter().map(f32::from_bits).collect::<Vec<_>>(), [3.0, 2.0, 1.0, 0.0]);
}

#[test]
fn functions_get_values_and_pointers() {
    let y = y(
        "fn add(to: ptr<function, array<u32, 4>>, at: u32, value: u32) -> u32 {\n(*to)[at] += value;\nreturn (*to)[at];\n}\n\
         fn twice(x: vec2<u32>) -> vec2<u32> { return x * 2u; }",
        "var a = array<u32, 4>(1u, 2u, 3u, 4u);\nlet sum = add(&a, tid % 4u, 10u);\n\
         y[group.x * 64u + tid] = sum + a[tid % 4u] + twice(vec2(tid, 0u)).x;",
    );
    assert_eq!(y[..3], [22, 26, 30]);
}

#[test]
fn loops_and_switches_leave_where_they_say() {
    let y = y(
        "",
        "var n = 0u;\nfor (var i = 0u; i < 100u; i++) {\nswitch i {\ncase 1u, 2u: { continue; }\ncase 7u: { n += 1000u; }\n\
         default: { n += 1u; }\n}\nif i == 9u { break; }\n}\ny[group.x * 64u + tid] = n;",
    );
    assert_eq!(y[0], 1007);
}

#[test]
fn divisions_by_zero_are_as_wgsl_has_them() {
    let y = y("", "let zero = tid - tid;\ny[group.x * 64u + tid] = 7u / zero + 10u * (7u % zero);");
    assert_eq!(y[0], 7);
}
