//! Text in, text out as it comes.
//!
//! `cargo run --release -p wgoose-session --example generate [MODEL [PROMPT]]`

mod support;

use std::error::Error;
use std::io::Write;
use std::ops::ControlFlow;
use wgoose_session::sampling::SamplerOptions;
use wgoose_session::{GenerateOptions, GenerationEvent, PlanChoice, Session};

fn main() -> Result<(), Box<dyn Error>> {
    let (model, _folder) = support::model()?;
    let prompt = std::env::args().nth(2).unwrap_or_else(|| "The goose flies over".to_owned());

    // The most capable GPU, with the plan that `wgoose tune` filed for it, if it did; without a word its default plan.
    let mut session = Session::builder().plan(PlanChoice::Find).open(&model)?;
    if let Some(device) = session.device() {
        println!("running on {}", device.adapter);
    }

    let sampling = SamplerOptions { temperature: 0.8, top_p: 0.9, seed: 1, ..SamplerOptions::default() };
    let options = GenerateOptions { sampling, max_tokens: 32, ..GenerateOptions::default() };
    print!("{prompt}");
    let generated = session.generate(prompt.as_bytes(), &options, &mut |event| {
        if let GenerationEvent::Text(text) = event {
            print!("{text}");
        }
        // Break to stop early; a text that cannot be written any more is a reason.
        match std::io::stdout().flush() {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    })?;
    println!("\n{} tokens read, {} written", generated.prompt_tokens, generated.tokens.len());
    Ok(())
}
