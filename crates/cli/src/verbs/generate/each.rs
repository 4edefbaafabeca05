//! Many texts together, each as it ends.

use super::input::Prompt;
use crate::failure::Failure;
use crate::progress::{Moving, aside};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::Write;
use std::num::NonZeroUsize;
use std::time::Instant;
use wgoose_session::{BatchEvent, Ending, GenerateOptions, Generated, SequenceId, Session};

/// Steps between two looks at who has ended; those that end meanwhile make room for queued ones.
const STEPS: NonZeroUsize = NonZeroUsize::new(8).unwrap();

/// Prints what follows each prompt, in the order in which they end: a line of JSON with the index of the prompt, its id
/// if it has one, its text, how many tokens that has and why it ended. Prints on stderr how long it took.
pub(super) fn each(
    session: &mut Session,
    prompts: &[Prompt],
    options: &GenerateOptions,
    together: usize,
) -> Result<(), Failure> {
    let start = Instant::now();
    let moving = Moving::bar(prompts.len() as u64, "{pos}/{len} texts {elapsed} {wide_msg}")?;
    let together = together.min(prompts.len());
    let mut batch = session.batch(together)?.with_queue(together);
    let mut waiting = prompts.iter().enumerate();
    let mut going: HashMap<SequenceId, (usize, String)> = HashMap::new();
    let (mut read, mut generated_all, mut ended) = (0, 0, 0);
    loop {
        for (index, prompt) in waiting.by_ref().take(batch.room()) {
            going.insert(batch.join(&prompt.text, options)?, (index, String::new()));
        }
        if batch.is_idle() {
            break;
        }
        for event in batch.steps(STEPS)? {
            match event {
                BatchEvent::Admitted(..) | BatchEvent::State(..) | BatchEvent::Logprobs(..) => {}
                BatchEvent::Failed(_, why) => return Err(why.into()),
                BatchEvent::Text(id, piece) => going.entry(id).or_default().1.push_str(&piece),
                BatchEvent::Ended(id, generated) => {
                    let (index, text) = going.remove(&id).unwrap_or_default();
                    let line = line(index, &prompts[index], &text, &generated);
                    aside(|| writeln!(std::io::stdout(), "{line}"))?;
                    (read, generated_all) = (read + generated.prompt_tokens, generated_all + generated.tokens.len());
                    ended += 1;
                    moving.done(ended);
                }
            }
        }
        moving.say(&format!("{:.1} tokens/s", generated_all as f64 / start.elapsed().as_secs_f64()));
    }
    drop(moving);
    let seconds = start.elapsed().as_secs_f64();
    let speed = generated_all as f64 / seconds.max(1e-9);
    eprintln!(
        "{read} prompt tokens, {generated_all} tokens generated, {seconds:.1} s, {speed:.1} tokens/s, up to {} at once",
        batch.capacity(),
    );
    Ok(())
}

/// The names of reasons are those of the OpenAI API.
fn line(index: usize, prompt: &Prompt, text: &str, generated: &Generated) -> Value {
    let reason = match generated.ending {
        Ending::MaxTokens => "length",
        Ending::StopToken(_) | Ending::StopString(_) | Ending::Caller => "stop",
    };
    let tokens = generated.tokens.len();
    let mut line = json!({ "prompt": index, "text": text, "tokens": tokens, "finish_reason": reason });
    if let Some(id) = &prompt.id {
        line["id"] = id.clone();
    }
    line
}
