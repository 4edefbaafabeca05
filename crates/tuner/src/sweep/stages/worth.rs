//! The choices of a plan that are worth the most, by the times of their kernels alone.

use crate::sweep::task::Task;
use std::collections::BTreeSet;
use wgoose_kernels::Plan;
use wgoose_kernels::plan::{Choice, TuningKey, default_kernel};
use wgoose_measure::job::Configured;
use wgoose_measure::result_cache::ResultCache;
use wgoose_measure::scenario::Scenario;
use wgoose_measure::space::{InstanceGroup, groups};

/// A choice of a plan, and the time that it saves in a pass.
#[derive(Clone, Debug, PartialEq)]
pub struct Worth {
    /// The pass.
    pub scenario: Scenario,
    /// The kind of op instance, as the default plan has it.
    pub of: TuningKey,
    /// How many of them the pass has.
    pub count: u32,
    /// The chosen kernel: variant and configuration.
    pub kernel: String,
    /// Whether its weights have another layout than by default.
    pub is_relaid: bool,
    /// Microseconds of all of them in a pass: by default, and as chosen.
    pub us: [f64; 2],
    /// The saved time as a share of the pass by default, 0 to 1.
    pub share: f64,
}

/// What a plan's kernels are worth in the passes of its scenarios, the most valuable first. A plan whose decode is a
/// megakernel has only what runs beside that.
pub(in crate::sweep) fn worth(task: Task<'_>, results: &ResultCache<'_>, plan: &Plan) -> Vec<Worth> {
    let (problem, objective) = (task.problem, &task.options.objective);
    let prompts = objective.prompts().into_iter().map(|prompt| prompt.tokens.min(plan.prefill_chunk));
    let prompts: BTreeSet<u32> = prompts.filter(|tokens| *tokens > 1).collect();
    let decode = objective.decodes().then_some(Scenario::DECODE);
    let passes: Vec<Scenario> = decode.into_iter().chain(prompts.into_iter().map(Scenario::prefill)).collect();
    let mut all = Vec::new();
    for scenario in passes {
        let [default, own] = [&problem.default, plan].map(|plan| {
            let fusions = if scenario == Scenario::DECODE { &plan.fusions.decode } else { &plan.fusions.prefill };
            groups(&problem.shape, scenario, fusions, &problem.formats_on_gpu(plan))
        });
        // A pass takes longer than its kernels: as long as was measured, where it was.
        let evidence = plan.evidence.iter().flat_map(|evidence| &evidence.scenarios);
        let mut measured =
            evidence.filter(|timed| timed.scenario == scenario.name() && timed.tokens == scenario.tokens);
        let kernels_ns = || default.iter().filter_map(|group| ns_in(task, results, &problem.default, group)).sum();
        let whole = measured.next().map_or_else(kernels_ns, |timed| timed.default_us * 1e3);
        // The head of a prompt is decode's.
        for group in own.iter().filter(|group| scenario.tokens == 1 || group.instance.rows > 1) {
            let is_same = |other: &&InstanceGroup| {
                let key = |of: &InstanceGroup| (of.key.op.clone(), of.key.k, of.key.m, of.instance.rows, of.count);
                key(other) == key(group)
            };
            let Some(before) = default.iter().find(is_same) else { continue };
            let ns = [ns_in(task, results, &problem.default, before), ns_in(task, results, plan, group)];
            let is_relaid = before.key.formats != group.key.formats;
            let (Some(kernel), [Some(from), Some(to)]) = (kernel_in(task, plan, group, is_relaid), ns) else {
                continue;
            };
            if from > to {
                all.push(Worth {
                    scenario,
                    of: before.key.clone(),
                    count: group.count,
                    kernel,
                    is_relaid,
                    us: [from / 1e3, to / 1e3],
                    share: (from - to) / whole.max(1.0),
                });
            }
        }
    }
    all.sort_by(|a, b| b.share.total_cmp(&a.share));
    all
}

/// The kernel that a plan has chosen for a kind of instance, or the default of weights that it lays out in another way.
fn kernel_in(task: Task<'_>, plan: &Plan, group: &InstanceGroup, is_relaid: bool) -> Option<String> {
    if let Some(choice) = plan.choices.iter().find(|choice| choice.key == group.key) {
        return Some(choice.to_string());
    }
    let (limits, catalogue) = (&task.problem.limits, &task.options.catalogue);
    let default = default_kernel(&group.instance, plan.precision, limits, catalogue).ok().filter(|_| is_relaid);
    let (variant, config, _) = default?;
    Choice::new(group.key.clone(), variant, &config).ok().map(|choice| choice.to_string())
}

/// Nanoseconds of all instances of a kind in a pass, by the kernel that a plan has for it, where that was timed.
fn ns_in(task: Task<'_>, results: &ResultCache<'_>, plan: &Plan, group: &InstanceGroup) -> Option<f64> {
    let (limits, catalogue) = (&task.problem.limits, &task.options.catalogue);
    let is_chosen = |kernel: &Configured| match plan.choices.iter().find(|choice| choice.key == group.key) {
        Some(choice) => (&kernel.variant, &kernel.config) == (&choice.variant, &choice.config),
        None => default_kernel(&group.instance, plan.precision, limits, catalogue).is_ok_and(|(variant, config, _)| {
            (kernel.variant.as_str(), &kernel.config) == (variant.name(), &variant.spell(&config))
        }),
    };
    let timed = results.timed(group).into_iter().find(|(kernel, _)| is_chosen(kernel));
    timed.map(|(_, ns)| ns * f64::from(group.count))
}
