//! Many texts generated together.

use crate::boundary::outside;
use crate::error::of_session;
use pyo3::prelude::*;
use std::collections::HashMap;
use std::num::NonZeroUsize;
use wgoose_session::{BatchEvent, GenerateOptions, Generated, SequenceId, SessionBatch, SessionError};

/// Steps between two looks at signals and at who has ended: what an ended sequence wastes at most.
const STEPS: NonZeroUsize = NonZeroUsize::new(8).unwrap();

/// What follows each prompt, in their order.
pub(crate) fn generate(
    py: Python<'_>,
    mut batch: SessionBatch,
    prompts: &[Vec<u8>],
    options: &GenerateOptions,
) -> PyResult<Vec<(String, Generated)>> {
    let mut waiting = prompts.iter().enumerate();
    let mut going = HashMap::new();
    let mut ended = Vec::new();
    loop {
        while batch.room() > 0
            && let Some((index, prompt)) = waiting.next()
        {
            py.check_signals()?;
            let id = outside(py, || batch.join(prompt, options))?.map_err(|e| of_session(&e))?;
            going.insert(id, (index, String::new()));
        }
        if batch.is_idle() {
            break;
        }
        py.check_signals()?;
        outside(py, || step(&mut batch, &mut going, &mut ended))?.map_err(|e| of_session(&e))?;
    }
    ended.sort_by_key(|(index, ..)| *index);
    Ok(ended.into_iter().map(|(_, text, generated)| (text, generated)).collect())
}

/// Some steps: texts grow, and those that end move from one place to the other.
fn step(
    batch: &mut SessionBatch,
    going: &mut HashMap<SequenceId, (usize, String)>,
    ended: &mut Vec<(usize, String, Generated)>,
) -> Result<(), SessionError> {
    for event in batch.steps(STEPS)? {
        match event {
            BatchEvent::Admitted(..) | BatchEvent::State(..) | BatchEvent::Logprobs(..) => {}
            BatchEvent::Failed(_, why) => return Err(why),
            BatchEvent::Text(id, piece) => going.entry(id).or_default().1.push_str(&piece),
            BatchEvent::Ended(id, generated) => {
                let (index, text) = going.remove(&id).unwrap_or_default();
                ended.push((index, text, generated));
            }
        }
    }
    Ok(())
}
