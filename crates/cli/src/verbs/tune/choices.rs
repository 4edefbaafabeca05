//! The choices of a plan that are worth the most, in plain words.

use std::fmt;
use wgoose_measure::scenario::Scenario;
use wgoose_tuner::sweep::Worth;

/// So many are shown.
const SHOWN: usize = 3;

/// The most valuable choices, a line each.
pub(super) struct Choices<'a> {
    pub(super) worth: &'a [Worth],
    /// Rows of the output head.
    pub(super) vocab: u32,
}

impl fmt::Display for Choices<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.worth.is_empty() {
            return Ok(());
        }
        writeln!(f, "the most valuable choices, by the time of their kernels alone:")?;
        for worth in self.worth.iter().take(SHOWN) {
            let Worth { scenario, of, count, kernel, is_relaid, us: [from, to], share } = worth;
            let pass = if *scenario == Scenario::DECODE { "a decode step".to_owned() } else { format!("a {scenario}") };
            let layout = if *is_relaid { ", its weights rearranged" } else { "" };
            let many = if *count == 1 { String::new() } else { format!(" ({count} a step)") };
            writeln!(
                f,
                "  {:.0} % of {pass}: {}{many} takes {} instead of {} by {kernel}{layout}",
                100.0 * share,
                name(&of.op, of.m == self.vocab),
                time(*to),
                time(*from),
            )?;
        }
        Ok(())
    }
}

/// A time in microseconds, or in milliseconds where it is long.
fn time(us: f64) -> String {
    if us >= 1000.0 { format!("{:.1} ms", us / 1e3) } else { format!("{us:.0} us") }
}

/// An op in the words of somebody who knows transformers.
fn name(op: &str, is_head: bool) -> String {
    match op {
        "matmul" | "norm_matmul" if is_head => "the output head".to_owned(),
        "matmul" => "a matrix product".to_owned(),
        "matmul_add" => "a matrix product with its residual".to_owned(),
        "norm_matmul" => "a matrix product with the normalisation before it".to_owned(),
        "project" | "norm_project" => "the projections of a layer (receptance, key, value)".to_owned(),
        "lora_down" | "lora_up" => "the low-rank adapters of a layer".to_owned(),
        "time_mix_core" | "time_mix_heads" | "wkv" | "wkv_heads" => "the update of a layer's state".to_owned(),
        "layer_norm" | "group_norm" | "norm_shift" => "a normalisation".to_owned(),
        other => format!("the op {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wgoose_kernels::plan::TuningKey;

    #[test]
    fn each_choice_is_a_line_with_its_saving() {
        let worth = |op: &str, m, count, share| Worth {
            scenario: Scenario::DECODE,
            of: TuningKey { op: op.to_owned(), k: 256, m, formats: Vec::new(), up_to_rows: 1 },
            count,
            kernel: "gemv_subgroup WG=64".to_owned(),
            is_relaid: count == 1,
            us: [1900.0, 465.4],
            share,
        };
        let all = [worth("matmul", 2048, 1, 0.123), worth("project", 256, 3, 0.04)];
        let text = Choices { worth: &all, vocab: 2048 }.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[1],
            "  12 % of a decode step: the output head takes 465 us instead of 1.9 ms by gemv_subgroup WG=64, its weights \
             rearranged"
        );
        assert!(
            lines[2].starts_with("  4 % of a decode step: the projections of a layer")
                && lines[2].contains("(3 a step)")
        );
        assert_eq!(Choices { worth: &[], vocab: 2048 }.to_string(), "");
    }
}
