//! A chat reads every token once, and its state is that of the whole conversation.

use crate::support::{on_cpu, tiny};
use std::ops::ControlFlow;
use wgoose_session::sampling::{Penalties, SamplerOptions};
use wgoose_session::{Chat, ChatOptions, ChatTurn, Ending, GenerateOptions, Generated, GenerationEvent, Session};

/// Says `text`, whose tokens all differ, and then whatever.
fn recite(session: &Session, text: &str) -> SamplerOptions {
    let tokens = session.tokenizer().unwrap().encode(text.as_bytes());
    let bias = tokens.iter().zip(0..).map(|(token, i)| (*token, 1000.0 - 50.0 * i as f32)).collect();
    let penalties = Penalties { presence: 5000.0, ..Penalties::default() };
    SamplerOptions { temperature: 0.0, bias, penalties, ..SamplerOptions::default() }
}

fn say(chat: &mut Chat, message: &str) -> (String, Generated) {
    let mut text = String::new();
    let generated = chat.say(message, &mut |event| {
        if let GenerationEvent::Text(piece) = event {
            text.push_str(piece);
        }
        ControlFlow::Continue(())
    });
    (text, generated.unwrap())
}

/// Tokens of one prefill of a session.
type Part<'a> = &'a dyn Fn(&Session) -> Vec<u32>;

/// The state must be that of a session that has read these parts.
fn assert_read(mut got: Session, parts: &[Part<'_>]) {
    let model = tiny(1);
    let mut want = on_cpu(&model);
    for part in parts {
        let tokens = part(&want);
        want.prefill(&tokens).unwrap();
    }
    for ((tensor, got), (_, want)) in got.state().unwrap().0.iter().zip(&want.state().unwrap().0) {
        let off: f32 = got.iter().zip(want).map(|(g, w)| (g - w).powi(2)).sum();
        assert!(off <= 1e-10 * want.iter().map(|w| w.powi(2)).sum::<f32>(), "{tensor} is off by {off}");
    }
}

fn text(text: &'static str) -> impl Fn(&Session) -> Vec<u32> {
    move |session| session.tokenizer().unwrap().encode(text.as_bytes())
}

#[test]
fn the_chat_reads_the_text_of_the_template() {
    let model = tiny(1);
    let session = on_cpu(&model);
    let sampling = recite(&session, " Ok\n\nUser:");
    let generate = GenerateOptions { sampling, max_tokens: 50, ..GenerateOptions::default() };
    let mut chat = Chat::new(session, ChatOptions { system: Some("Be\n\nbrief.".into()), think: false, generate });
    let (first, generated) = say(&mut chat, "Is it?\n");
    assert_eq!((first.as_str(), generated.ending), (" Ok", Ending::StopString(0)));
    assert_eq!(
        generated.prompt_tokens,
        text("System: Be\nbrief.\n\nUser: Is it?\n\nAssistant:")(&on_cpu(&model)).len()
    );
    // All of "\n\nUser" was read; only ":" is left of it.
    let (second, again) = say(&mut chat, "Sure?");
    assert_eq!(second, " Ok");
    assert_eq!(again.prompt_tokens, text(": Sure?\n\nAssistant:")(&on_cpu(&model)).len());
    assert_read(
        chat.into_session(),
        &[
            &text("System: Be\nbrief.\n\nUser: Is it?\n\nAssistant:"),
            &text(" Ok\n\nUser"),
            &text(": Sure?\n\nAssistant:"),
            &text(" Ok\n\nUser"),
        ],
    );
}

#[test]
fn an_answer_that_was_cut_is_read_to_its_end() {
    let model = tiny(1);
    let session = on_cpu(&model);
    let sampling = recite(&session, " Okay");
    let generate = GenerateOptions { sampling, max_tokens: 50, ..GenerateOptions::default() };
    let mut chat = Chat::new(session, ChatOptions { system: None, think: true, generate });
    let mut said = String::new();
    let generated = chat.say("a", &mut |event| {
        let GenerationEvent::Text(piece) = event else { panic!("{event:?}") };
        said.push_str(piece);
        if said.ends_with("k") { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!((generated.unwrap().ending, said.as_str()), (Ending::Caller, " Ok"));
    let (_, generated) = say(&mut chat, "b");
    assert_eq!(generated.prompt_tokens, text("k\n\nUser: b\n\nAssistant: <think")(&on_cpu(&model)).len());
}

#[test]
fn the_text_before_a_stop_string_is_printed() {
    let model = tiny(1);
    let session = on_cpu(&model);
    let sampling = recite(&session, " Ok\t\n");
    let stop_strings = vec!["\n".to_owned()];
    let generate = GenerateOptions { sampling, stop_strings, max_tokens: 50, ..GenerateOptions::default() };
    let mut chat = Chat::new(session, ChatOptions { system: None, think: false, generate });
    let (said, generated) = say(&mut chat, "a");
    // The tab and the line feed are one token.
    assert_eq!((said.as_str(), generated.ending, generated.tokens.len()), (" Ok\t", Ending::StopString(0), 3));
    let (_, generated) = say(&mut chat, "b");
    assert_eq!(generated.prompt_tokens, text("\t\n\nUser: b\n\nAssistant:")(&on_cpu(&model)).len());
}

#[test]
fn a_reset_restores_the_first_state_of_a_conversation() {
    let model = tiny(1);
    let state_after = |words: &[&str]| {
        let mut session = on_cpu(&model);
        session.prefill(&[5, 6, 7]).unwrap();
        let sampling = recite(&session, " Ok\n\nUser:");
        let generate = GenerateOptions { sampling, max_tokens: 50, ..GenerateOptions::default() };
        let mut chat = Chat::new(session, ChatOptions { generate, ..ChatOptions::default() });
        for word in words {
            match *word {
                "/reset" => chat.reset().unwrap(),
                word => drop(say(&mut chat, word)),
            }
        }
        chat.into_session().state().unwrap()
    };
    let once = state_after(&["one"]);
    assert!(state_after(&["two", "/reset", "one"]) == once);
    assert!(state_after(&["/reset", "one"]) == once);
    assert!(state_after(&["two", "one"]) != once);
}

#[test]
fn conversations_are_kept_in_files() {
    let model = tiny(1);
    let open = || {
        let session = on_cpu(&model);
        let sampling = recite(&session, "ok\n\nUser:");
        let generate = GenerateOptions { sampling, max_tokens: 4, ..GenerateOptions::default() };
        Chat::new(session, ChatOptions { generate, ..ChatOptions::default() })
    };
    let path = model.folder.path().join("chat.st");
    let mut before = open();
    say(&mut before, "one");
    before.save(&path).unwrap();
    let mut after = open();
    after.load(&path).unwrap();
    let (want, got) = (say(&mut before, "two"), say(&mut after, "two"));
    assert_eq!(want, got);
    assert_eq!(got.1.prompt_tokens, text(" two\n\nAssistant:")(&on_cpu(&model)).len());
    assert!(before.into_session().state().unwrap() == after.into_session().state().unwrap());
    // Forgetting brings back the beginning, and a file that cannot be read changes nothing.
    let mut other = open();
    let first = say(&mut other, "one");
    assert!(other.load("nowhere.st").is_err());
    let second = say(&mut other, "two");
    other.reset().unwrap();
    assert_eq!(say(&mut other, "one"), first);
    assert_eq!(say(&mut other, "two"), second);
}

#[test]
fn a_file_of_a_conversation_has_its_text() {
    let model = tiny(1);
    let open = |think| {
        let session = on_cpu(&model);
        let sampling = recite(&session, " Ok\n\nUser:");
        let generate = GenerateOptions { sampling, max_tokens: 50, ..GenerateOptions::default() };
        Chat::new(session, ChatOptions { generate, think, ..ChatOptions::default() })
    };
    let turn = |message: &str, answer: &str| ChatTurn { message: message.to_owned(), answer: answer.to_owned() };
    let path = model.folder.path().join("chat.st");
    let mut before = open(false);
    say(&mut before, "one\n");
    say(&mut before, "never said");
    before.undo().unwrap();
    say(&mut before, "two");
    let said = [turn("one\n", "Ok"), turn("two", "Ok")];
    assert_eq!(before.turns(), said);
    before.save(&path).unwrap();
    assert_eq!(before.turns(), said, "saving forgets nothing");

    let mut after = open(true);
    after.load(&path).unwrap();
    say(&mut after, "three");
    assert_eq!(after.turns(), [&said[..], &[turn("three", "<think Ok")]].concat());
    after.reset().unwrap();
    assert!(after.turns().is_empty());

    let state = model.folder.path().join("state.st");
    before.into_session().save_state(&state).unwrap();
    after.load(&path).unwrap();
    after.load(&state).unwrap();
    assert!(after.turns().is_empty(), "a state alone has no text");
}

#[test]
fn messages_are_taken_back_and_answered_anew() {
    let model = tiny(1);
    let generate = GenerateOptions { max_tokens: 8, ..GenerateOptions::default() };
    let new = || Chat::new(on_cpu(&model), ChatOptions { generate: generate.clone(), ..ChatOptions::default() });
    let mut chat = new();
    assert_eq!(chat.undo().unwrap(), None);
    assert!(chat.again(&mut |_| ControlFlow::Continue(())).unwrap().is_none());
    let first = say(&mut chat, "one").0;
    let second = say(&mut chat, "two").0;
    assert_eq!(chat.undo().unwrap().as_deref(), Some("two"));
    assert_eq!(say(&mut chat, "two").0, second, "as if it had not been said before");
    let again = |chat: &mut Chat| {
        let mut text = String::new();
        let mut take = |event: GenerationEvent<'_>| {
            if let GenerationEvent::Text(piece) = event {
                text.push_str(piece);
            }
            ControlFlow::Continue(())
        };
        chat.again(&mut take).unwrap().unwrap();
        text
    };
    let (other, another) = (again(&mut chat), again(&mut chat));
    assert!(other != second && another != other, "{second:?} {other:?} {another:?}");
    assert_eq!((chat.undo().unwrap().as_deref(), chat.undo().unwrap().as_deref()), (Some("two"), Some("one")));
    assert_eq!(say(&mut chat, "one").0, first);
    chat.set_system(Some("Be brief.".into())).unwrap();
    assert_eq!(chat.undo().unwrap(), None);
    let told = say(&mut chat, "one").0;
    let options = ChatOptions { system: Some("Be brief.".into()), generate: generate.clone(), think: false };
    assert_eq!(say(&mut Chat::new(on_cpu(&model), options), "one").0, told);
}

#[test]
fn a_message_interrupted_during_prefill_is_forgotten() {
    let model = tiny(1);
    let generate = GenerateOptions { max_tokens: 4, ..GenerateOptions::default() };
    let new = || Chat::new(on_cpu(&model), ChatOptions { generate: generate.clone(), ..ChatOptions::default() });
    let mut chat = new();
    let mut calls = 0;
    let long = "goose ".repeat(1000);
    let broken = chat.say(&long, &mut |event| {
        calls += 1;
        assert!(matches!(event, GenerationEvent::Prefill { done: 1.., .. }), "{event:?}");
        ControlFlow::Break(())
    });
    let broken = broken.unwrap();
    assert!(calls == 1 && broken.tokens.is_empty() && broken.prompt_tokens > 0, "{broken:?}");
    assert_eq!(chat.last(), None);
    assert_eq!(say(&mut chat, "one").0, say(&mut new(), "one").0);
}
