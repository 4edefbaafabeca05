//! `--measure`: what the new file predicts of a text, beside its source.

use crate::failure::Failure;
use crate::options::RunOptions;
use crate::progress::Moving;
use std::num::NonZeroU64;
use std::ops::ControlFlow;
use std::path::Path;
use wgoose_session::eval::{EvalError, EvalOptions, Evaluation, evaluate};

/// Runs both on the text.
pub(super) fn measure(
    run: &RunOptions,
    [source, copy]: [&Path; 2],
    text: &Path,
    limit: Option<NonZeroU64>,
) -> Result<Evaluation, Failure> {
    let fail = |e: &dyn std::fmt::Display| Failure::from(format!("{}: {e}", text.display()));
    let mut bytes = wgoose_files::open_text(text).map_err(|e| fail(&e))?;
    let len = bytes.byte_len();
    let mut reference = run.session()?.open(source)?;
    // An adapter is in the copy already.
    let mut model = run.session()?.adapter(None).open(copy)?;
    let bar = Moving::bar(len, "{bytes}/{total_bytes} {elapsed} (left: {left}) {wide_msg}")?;
    bar.say("prefilling both models");
    let options = EvalOptions { context: None, limit };
    evaluate(&mut model, Some(&mut reference), &mut bytes, &options, &mut |score| {
        bar.done(score.bytes);
        ControlFlow::Continue(())
    })
    .map_err(|error| match error {
        EvalError::Text(_) | EvalError::Empty => fail(&error),
        other => other.into(),
    })
}

/// One line of it.
pub(super) fn line(evaluation: &Evaluation) -> String {
    let score = &evaluation.score;
    let against = evaluation.reference.as_ref().map(|(source, divergence)| {
        let all = divergence.all();
        format!(
            " (source: {:.4}), KL divergence from the source {:.2e} nats a token (99 %: {:.1e}, largest {:.1e}), same \
             likeliest token {:.2} %",
            source.perplexity(),
            all.mean_kl(),
            divergence.kl_99(),
            all.max_kl,
            100.0 * all.agreement()
        )
    });
    let against = against.unwrap_or_default();
    format!("measured on {} tokens: perplexity {:.4}{against}", score.tokens, score.perplexity())
}
