//! One text, as it comes.

use crate::failure::Failure;
use std::io::Write;
use std::ops::ControlFlow;
use std::time::Instant;
use wgoose_session::{GenerateOptions, Session};

/// Prints what follows a prompt, and on stderr how long it took.
pub(super) fn one(session: &mut Session, prompt: &str, options: &GenerateOptions) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let mut broken = None;
    let start = Instant::now();
    let mut first = None;
    let generated = session.generate(prompt.as_bytes(), options, &mut |text| {
        first.get_or_insert_with(|| start.elapsed());
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Ok(()) => ControlFlow::Continue(()),
            Err(e) => {
                broken = Some(e);
                ControlFlow::Break(())
            }
        }
    })?;
    match broken {
        Some(e) => return Err(e.into()),
        None => writeln!(out)?,
    }
    let first = first.unwrap_or_default().as_secs_f64();
    let rest = start.elapsed().as_secs_f64() - first;
    let speed = generated.tokens.len().saturating_sub(1) as f64 / rest.max(1e-9);
    eprintln!(
        "{} prompt tokens, first token after {:.0} ms, {} tokens generated, {speed:.1} tokens/s",
        generated.prompt_tokens,
        first * 1e3,
        generated.tokens.len(),
    );
    Ok(())
}
