//! One text, as it comes.

use crate::failure::Failure;
use crate::progress::Moving;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;
use wgoose_session::{Ending, GenerateOptions, GenerationEvent, Session};

/// Prints what follows a prompt, after that itself if it `echo`es, and on stderr how long it took. The state goes to
/// `save`.
pub(super) fn one(
    session: &mut Session,
    prompt: &[u8],
    options: &GenerateOptions,
    echo: bool,
    save: Option<&Path>,
) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    if echo {
        out.write_all(prompt)?;
        out.flush()?;
    }
    let tokens = session.tokenizer()?.encode(prompt);
    let mut reading = Some(Moving::spinner(&format!("reading the prompt, {} tokens", tokens.len()))?);
    let mut broken = None;
    let start = Instant::now();
    let mut first = None;
    let generated = session.generate_after(&tokens, options, &mut |event| {
        let text = match event {
            GenerationEvent::Text(text) => text,
            GenerationEvent::Logprobs(_) => return ControlFlow::Continue(()),
            GenerationEvent::Prefill { done, of } => {
                if let Some(moving) = &reading {
                    let rate = done as f64 / start.elapsed().as_secs_f64();
                    moving.say(&format!("reading the prompt, {done} of {of} tokens, {rate:.0} tokens/s"));
                }
                return ControlFlow::Continue(());
            }
        };
        reading = None;
        first.get_or_insert_with(|| start.elapsed());
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Ok(()) => ControlFlow::Continue(()),
            Err(e) => {
                broken = Some(e);
                ControlFlow::Break(())
            }
        }
    })?;
    drop(reading);
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
    if let Some(path) = save {
        // What was printed is in the state, but for its last token; that which completes a stop string was not printed.
        let is_said = !matches!(generated.ending, Ending::StopString(_));
        if let Some(last) = generated.unread().filter(|_| is_said) {
            session.prefill(&[last])?;
        }
        session.save_state(path)?;
    }
    Ok(())
}
