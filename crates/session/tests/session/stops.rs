//! Texts end where they are told to, on the device and on the host, and show nothing of what ends them.

use crate::support::{Tiny, tiny};
use std::ops::ControlFlow;
use wgoose_session::sampling::SamplerOptions;
use wgoose_session::{Backend, Ending, GenerateOptions, Generated, GenerationEvent, Session};

fn open(model: &Tiny, backend: Backend) -> Session {
    Session::builder().backend(backend).open(&model.path).unwrap()
}

fn generate(session: &mut Session, options: &GenerateOptions) -> (Vec<String>, Generated) {
    session.reset().unwrap();
    let mut pieces = Vec::new();
    let generated = session.generate(b"A goose", options, &mut |event| {
        if let GenerationEvent::Text(text) = event {
            pieces.push(text.to_owned());
        }
        ControlFlow::Continue(())
    });
    (pieces, generated.unwrap())
}

#[test]
fn strings_end_texts_and_are_not_shown() {
    let model = tiny(2);
    for backend in [Backend::Cpu, Backend::Gpu] {
        let mut session = open(&model, backend);
        let free = GenerateOptions { max_tokens: 60, ..GenerateOptions::default() };
        let (all, whole) = generate(&mut session, &free);
        let all = all.concat();
        let at: Vec<(usize, char)> = all.char_indices().collect();
        for (first, len) in [(3, 1), (10, 2), (20, 5), (30, 3)] {
            let stop: String = at[first..first + len].iter().map(|(_, c)| *c).collect();
            // A character that is cut becomes one that no byte string has.
            if stop.contains('\u{fffd}') {
                continue;
            }
            let found = all.find(&stop).unwrap();
            let never = "\u{10ffff} never".to_owned();
            let (pieces, generated) =
                generate(&mut session, &GenerateOptions { stop_strings: vec![never, stop], ..free.clone() });
            assert_eq!(pieces.concat(), all[..found]);
            assert_eq!(generated.ending, Ending::StopString(1));
            assert_eq!(generated.tokens, whole.tokens[..generated.tokens.len()]);
            // The state is that after all but the last token, as after any other end.
            let state = session.state().unwrap();
            let max_tokens = generated.tokens.len();
            let (_, same) = generate(&mut session, &GenerateOptions { max_tokens, ..free.clone() });
            assert_eq!((same.tokens, same.ending), (generated.tokens, Ending::MaxTokens));
            assert!(session.state().unwrap() == state);
        }
    }
}

/// More than the device is told of.
#[test]
fn many_stop_tokens_can_end_a_text() {
    let model = tiny(2);
    for backend in [Backend::Cpu, Backend::Gpu] {
        let mut session = open(&model, backend);
        let free = GenerateOptions { max_tokens: 60, ..GenerateOptions::default() };
        let (_, whole) = generate(&mut session, &free);
        for last in [0, 5, 31] {
            let stop = whole.tokens[last];
            let mut stop_tokens: Vec<u32> = (1000..1020).collect();
            stop_tokens.push(stop);
            let (_, generated) = generate(&mut session, &GenerateOptions { stop_tokens, ..free.clone() });
            let first = whole.tokens.iter().position(|token| *token == stop).unwrap();
            assert_eq!(
                (generated.tokens.as_slice(), generated.ending),
                (&whole.tokens[..first], Ending::StopToken(stop))
            );
            assert_eq!((generated.read(), generated.unread()), (&whole.tokens[..first], None));
        }
    }
}

#[test]
fn samplers_of_device_and_host_draw_equal_texts() {
    let model = tiny(2);
    let mut sessions = [Backend::Cpu, Backend::Gpu].map(|backend| open(&model, backend));
    let penalties = wgoose_session::sampling::Penalties { presence: 0.3, frequency: 0.7, repetition: 1.2, decay: 0.95 };
    let greedy = SamplerOptions { temperature: 0.0, ..SamplerOptions::default() };
    let bias = (0..40).map(|token| (token, f32::NEG_INFINITY)).chain([(70, 1.5), (80, -1.0)]).collect();
    for sampling in [
        SamplerOptions { penalties, ..greedy.clone() },
        SamplerOptions { bias, ..greedy },
        // One token is typical: no number is drawn.
        SamplerOptions { typical: 0.0, ..SamplerOptions::default() },
    ] {
        let options = GenerateOptions { sampling, max_tokens: 40, ..GenerateOptions::default() };
        let [host, device] = sessions.each_mut().map(|session| generate(session, &options));
        assert_eq!(host, device, "{options:?}");
    }
}
