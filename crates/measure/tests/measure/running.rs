//! Which scenarios two plans run alike.

use wgoose_graph::{Format, ModelShape, Weight};
use wgoose_kernels::plan::Choice;
use wgoose_kernels::{HandOver, Plan};
use wgoose_measure::running::changes_only_decode;
use wgoose_measure::scenario::Scenario;
use wgoose_measure::space::groups;
use wgoose_plans::catalogue;
use wgoose_sim::simulated_problem;

#[test]
fn scenarios_with_equal_kernels_are_alike() {
    let shape = ModelShape::preset("0.1B").unwrap();
    let format = |weight: Weight| if weight == Weight::Head { Format::Q6_K } else { Format::Q8_0 };
    let mut problem = simulated_problem(shape, Weight::all(&shape).map(|weight| (weight, format(weight))).collect());
    problem.default.prefill_chunk = 2048;
    let (default, catalogue) = (&problem.default, catalogue::embedded());
    let with = |scenario: Scenario, op: &str, m: u32| {
        let is_decode = scenario == Scenario::DECODE;
        let fusions = if is_decode { &default.fusions.decode } else { &default.fusions.prefill };
        let groups = groups(&shape, scenario, fusions, &problem.formats_on_gpu(default));
        let found = groups.into_iter().find(|group| group.key.op == op && group.key.m == m).unwrap();
        let variant = catalogue.variant(op, "naive").unwrap();
        let mut plan = default.clone();
        plan.adopt(Choice::new(found.key, variant, &variant.default_config()).unwrap());
        plan
    };
    let alike = |plan: &Plan| {
        [1, 32, 512, 2500, plan.prefill_chunk + 1]
            .map(|tokens| problem.run_alike([default, plan], Scenario::prefill(tokens)))
    };
    assert_eq!(alike(default), [true; 5]);
    // A pass of one token is one of decode.
    let of_decode = [false, true, true, true, false];
    let of_layers = with(Scenario::DECODE, "matmul", 3072);
    assert_eq!(alike(&of_layers), of_decode);
    assert_eq!(alike(&with(Scenario::DECODE, "matmul", 65536)), of_decode);
    assert_eq!(alike(&Plan { persistent: Some(132), ..default.clone() }), of_decode);
    assert_eq!(alike(&Plan { interleave: [Format::Q6_K].into(), ..default.clone() }), of_decode);
    assert_eq!(alike(&Plan { interleave: [Format::Q8_0].into(), ..default.clone() }), [false; 5]);
    // 2,500 tokens are a chunk and a rest of 452.
    assert_eq!(alike(&with(Scenario::prefill(32), "matmul", 3072)), [true, false, true, true, true]);
    // A choice for more rows serves fewer, too.
    assert_eq!(alike(&with(Scenario::prefill(512), "matmul", 3072)), [true, false, false, false, true]);
    let chunked = Plan { prefill_chunk: 1024, ..default.clone() };
    assert_eq!(alike(&chunked), [true, true, true, false, false]);
    assert!(!problem.run_alike([default; 2], Scenario { from_start: true, ..Scenario::prefill(32) }));

    let mut fused = default.clone();
    fused.fusions.decode.pop_first();
    let persistent = Plan { persistent: Some(132), hand_over: HandOver::Announced, ..default.clone() };
    let decoding = [default, &of_layers, &fused, &persistent];
    assert!(decoding.into_iter().all(|plan| changes_only_decode(default, plan)));
    let interleaved = Plan { interleave: [Format::Q6_K].into(), ..default.clone() };
    let others = [&interleaved, &chunked, &with(Scenario::prefill(32), "matmul", 3072)];
    assert!(others.into_iter().all(|plan| !changes_only_decode(default, plan)));
}
