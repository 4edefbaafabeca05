//! Many texts together, each as it ends.

use crate::failure::Failure;
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::time::Instant;
use wgoose_session::{BatchEvent, GenerateOptions, SequenceId, Session};

/// Steps between two looks at who has ended: what an ended sequence wastes at most.
const STEPS: NonZeroUsize = NonZeroUsize::new(8).unwrap();

/// Prints what follows each prompt, in the order in which they end: a line of JSON with the index of the prompt, its text
/// and how many tokens that has. Prints on stderr how long it took.
pub(super) fn each(
    session: &mut Session,
    prompts: &[String],
    options: &GenerateOptions,
    together: usize,
) -> Result<(), Failure> {
    let start = Instant::now();
    let mut batch = session.batch(together.min(prompts.len()))?;
    let mut waiting = prompts.iter().enumerate();
    let mut going: HashMap<SequenceId, (usize, String)> = HashMap::new();
    let (mut read, mut generated_all) = (0, 0);
    loop {
        for (index, prompt) in waiting.by_ref().take(batch.room()) {
            going.insert(batch.join(prompt.as_bytes(), options)?, (index, String::new()));
        }
        if batch.is_idle() {
            break;
        }
        for event in batch.steps(STEPS)? {
            match event {
                BatchEvent::Text(id, piece) => going.entry(id).or_default().1.push_str(&piece),
                BatchEvent::Ended(id, generated) => {
                    let (index, text) = going.remove(&id).unwrap_or_default();
                    let tokens = generated.tokens.len();
                    outln!("{}", serde_json::json!({ "prompt": index, "text": text, "tokens": tokens }));
                    (read, generated_all) = (read + generated.prompt_tokens, generated_all + tokens);
                }
            }
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let speed = generated_all as f64 / seconds.max(1e-9);
    eprintln!(
        "{read} prompt tokens, {generated_all} tokens generated, {seconds:.1} s, {speed:.1} tokens/s, up to {} at once",
        batch.capacity(),
    );
    Ok(())
}
