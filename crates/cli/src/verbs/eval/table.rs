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
        ("bits per byte", |s| with_error(s.bits_per_byte(), relative_error(s))),
        ("bits per token", |s| with_error(s.bits_per_token(), relative_error(s))),
        ("perplexity per token", |s| with_error(s.perplexity(), s.standard_error())),
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
    format!("{}\n", format!("{name:<22}{model:>26}  {reference:>26}").trim_end())
}

/// The standard error of the bits, as a share of them.
fn relative_error(score: &Score) -> Option<f64> {
    score.standard_error().map(|error| error / (score.nats / score.tokens as f64))
}

/// Six digits that count, and the error that is a share of them.
fn with_error(value: f64, relative: Option<f64>) -> String {
    match relative {
        Some(relative) => format!("{} +- {}", digits(value), digits(value * relative)),
        None => digits(value),
    }
}

/// Six digits that count.
fn digits(value: f64) -> String {
    let whole = if value == 0.0 || !value.is_finite() { 0 } else { value.abs().log10().floor() as i32 };
    match whole {
        -4..6 => format!("{value:.*}", (5 - whole) as usize),
        _ => format!("{value:.5e}"),
    }
}

fn distance(divergence: &Divergence) -> String {
    let all = divergence.all();
    let (mean, most, largest) = (all.mean_kl(), divergence.kl_99(), all.max_kl);
    let mut text =
        format!("\nKL divergence from the reference: mean {mean:.2e}, 99 % {most:.2e}, largest {largest:.2e}\n");
    let (agreement, rms) = (100.0 * all.agreement(), all.rms());
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "divergences are in nats; same likeliest token: {agreement:.2} %\nrms error of the logits: {rms:.2e}\n"
    );
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

#[cfg(test)]
mod tests {
    use super::{digits, with_error};

    #[test]
    fn columns_keep_their_width() {
        for (value, text) in [(0.0, "0.00000"), (1.25, "1.25000"), (8.0321e-3, "0.00803210"), (54321.9, "54321.9")] {
            assert_eq!(digits(value), text);
        }
        assert_eq!((digits(8685549.96), digits(1e-9)), ("8.68555e6".into(), "1.00000e-9".into()));
        assert_eq!(
            (with_error(2.0, Some(0.01)), with_error(2.0, None)),
            ("2.00000 +- 0.0200000".into(), "2.00000".into())
        );
    }
}
