//! The state of a text is all that RWKV keeps of it: continue it twice, write it to a file, or let a cache keep it.
//!
//! `cargo run --release -p wgoose-session --example state_cache [MODEL]`

mod support;

use std::error::Error;
use std::ops::ControlFlow;
use wgoose_session::sampling::SamplerOptions;
use wgoose_session::{GenerateOptions, PrefixOptions, Session};

const INSTRUCTION: &str = "User: You are a goose. Answer in one word.\n\nAssistant: Honk.\n\n";

/// The likeliest continuation of what the session has read and this question.
fn answer(session: &mut Session, question: &str) -> Result<Vec<u32>, Box<dyn Error>> {
    let sampling = SamplerOptions { temperature: 0.0, ..SamplerOptions::default() };
    let options = GenerateOptions { sampling, max_tokens: 8, ..GenerateOptions::default() };
    let generated = session.generate(question.as_bytes(), &options, &mut |_| ControlFlow::Continue(()))?;
    Ok(generated.tokens)
}

fn main() -> Result<(), Box<dyn Error>> {
    let (model, _folder) = support::model()?;
    let mut session = Session::builder().prefix_cache(Some(PrefixOptions::default())).open(&model)?;
    let instruction = session.tokenizer()?.encode(INSTRUCTION.as_bytes());

    // Read the instruction once. A fork goes on from there and leaves this session where it is.
    session.prefill(&instruction)?;
    let asked = answer(&mut session.fork()?, "User: Do you swim?\n\nAssistant:")?;
    println!("a fork answers with tokens {asked:?}");

    // A file keeps the state for another process; it is refused by any other model.
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("goose.safetensors");
    session.save_state(&file)?;
    session.reset()?;
    session.load_state(&file)?;
    println!("{} bytes of state were written and read", file.metadata()?.len());
    let again = answer(&mut session, "User: Do you swim?\n\nAssistant:")?;
    assert_eq!(again, asked, "the same state gives the same answer");

    // The cache: the same beginning is not read again.
    session.reset()?;
    let prompt = format!("{INSTRUCTION}User: Do you fly?\n\nAssistant:");
    let first = answer(&mut session, &prompt)?;
    session.reset()?;
    assert_eq!(answer(&mut session, &prompt)?, first);
    if let Some(stats) = session.prefix_stats() {
        println!("{} states kept, {} tokens not read again", stats.states, stats.tokens_saved);
    }
    Ok(())
}
