//! An evaluation as text.

use std::fmt::Write;
use wgoose_session::eval::{Divergence, Evaluation, Score, Stretch};

/// One column for the model; with a reference, one for that, and how far the model is from it.
pub(super) fn table(evaluation: &Evaluation) -> String {
    let score = &evaluation.score;
    let mut text = format!("{} tokens, {} bytes\n", score.tokens, score.bytes);
    let reference = evaluation.reference.as_ref();
    if reference.is_some() {
        text += &row("", "model", "reference");
    }
    type Value = fn(&Score) -> String;
    let rows: [(&str, Value); 4] = [
        ("bits per byte", |s| format!("{:.5}", s.bits_per_byte())),
        ("bits per token", |s| format!("{:.5}", s.bits_per_token())),
        ("perplexity per token", |s| format!("{:.4}", s.perplexity())),
        ("tokens/s", |s| format!("{:.1}", s.tokens_per_second())),
    ];
    for (name, value) in rows {
        text += &row(name, &value(score), &reference.map(|(r, _)| value(r)).unwrap_or_default());
    }
    if let Some((_, divergence)) = reference {
        text += &distance(divergence);
    }
    text.truncate(text.trim_end().len());
    text
}

fn row(name: &str, model: &str, reference: &str) -> String {
    format!("{}\n", format!("{name:<22}{model:>12}{reference:>12}").trim_end())
}

fn distance(divergence: &Divergence) -> String {
    let all = divergence.all();
    let (mean, most, largest) = (all.mean_kl(), divergence.kl_99(), all.max_kl);
    let mut text =
        format!("\nKL divergence from the reference, nats: mean {mean:.2e}, 99 % {most:.2e}, largest {largest:.2e}\n");
    let (agreement, rms) = (100.0 * all.agreement(), all.rms());
    // Writing to a string cannot fail.
    let _ = writeln!(text, "same likeliest token: {agreement:.2} %; rms error of the logits: {rms:.2e}\n");
    let _ = writeln!(
        text,
        "{:>17} {:>9} {:>10} {:>11} {:>9} {:>10}",
        "position", "tokens", "mean KL", "largest KL", "same", "rms error"
    );
    for stretch in divergence.stretches() {
        text += &position(stretch);
    }
    text
}

fn position(stretch: &Stretch) -> String {
    // A stretch ends where one four times as far begins.
    let last = (4 * stretch.first).saturating_sub(1);
    let range = if stretch.first == 0 { "0".to_owned() } else { format!("{} to {last}", stretch.first) };
    format!(
        "{range:>17} {:>9} {:>10.2e} {:>11.2e} {:>7.2} % {:>10.2e}\n",
        stretch.tokens,
        stretch.mean_kl(),
        stretch.max_kl,
        100.0 * stretch.agreement(),
        stretch.rms()
    )
}
