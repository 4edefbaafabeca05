//! Properties of every vocabulary and every input.

use proptest::prelude::*;
use wgoose_session::tokenizer::{Tokenizer, UnknownToken, VocabularyError};

/// The definition: try every token, keep the longest; of equal ones the last.
fn encode_naively(entries: &[Vec<u8>], mut rest: &[u8]) -> Vec<u32> {
    let mut ids = Vec::new();
    while !rest.is_empty() {
        let matching = (0..).zip(entries).filter(|(_, token)| !token.is_empty() && rest.starts_with(token));
        let (id, token) = matching.max_by_key(|(_, token)| token.len()).expect("every byte has a token");
        ids.push(id);
        rest = &rest[token.len()..];
    }
    ids
}

/// Entry 0 and every byte.
fn bytes_only() -> Vec<Vec<u8>> {
    std::iter::once(Vec::new()).chain((0..=u8::MAX).map(|byte| vec![byte])).collect()
}

/// Few distinct bytes, so that long tokens match; 0x00, 0x7f, 0x80 and 0xff are the ends of the byte ranges.
fn letters(max_len: usize) -> impl Strategy<Value = Vec<u8>> {
    let letter =
        prop_oneof![4 => prop::sample::select(&b"ab"[..]), 1 => prop::sample::select(&b"c\x00\x7f\x80\xff"[..])];
    prop::collection::vec(letter, 0..max_len)
}

/// Every byte once, in any order, among words, duplicates and unused ids.
fn vocabularies() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let word = prop_oneof![4 => letters(8), 1 => prop::collection::vec(any::<u8>(), 0..4)];
    prop::collection::vec(word, 0..80)
        .prop_map(|words| bytes_only().into_iter().skip(1).chain(words).collect::<Vec<_>>())
        .prop_shuffle()
        .prop_map(|tokens| std::iter::once(Vec::new()).chain(tokens).collect())
}

proptest! {
    #[test]
    fn world_gives_any_bytes_back(bytes in prop::collection::vec(any::<u8>(), 0..600), text in any::<String>()) {
        let world = Tokenizer::world();
        for bytes in [bytes, text.into_bytes()] {
            let ids = world.encode(&bytes);
            prop_assert!(!ids.contains(&0));
            prop_assert_eq!(world.decode(&ids), Ok(bytes));
        }
    }

    #[test]
    fn the_longest_token_matches(entries in vocabularies(), text in letters(120)) {
        let tokenizer = Tokenizer::from_vocabulary(&entries).unwrap();
        prop_assert_eq!(tokenizer.encode(&text), encode_naively(&entries, &text));
        prop_assert!(tokenizer.vocabulary().eq(entries.iter().map(Vec::as_slice)));
    }

    /// Many children everywhere: the trie's blocks fill up and refuse.
    #[test]
    fn wide_vocabularies_match_too(
        words in prop::collection::vec(prop::collection::vec(any::<u8>(), 2..4), 3000),
        picks in prop::collection::vec(any::<prop::sample::Index>(), 40),
    ) {
        let text: Vec<u8> = picks.iter().flat_map(|pick| pick.get(&words).clone()).collect();
        let entries = [bytes_only(), words].concat();
        prop_assert_eq!(Tokenizer::from_vocabulary(&entries).unwrap().encode(&text), encode_naively(&entries, &text));
    }

    #[test]
    fn world_truncates_anywhere(vocab in 257usize..70_000, text in "[ a-z\n中文の]{0,200}") {
        let cut = Tokenizer::world().truncated(vocab).unwrap();
        prop_assert_eq!(cut.len(), vocab.min(65530));
        let ids = cut.encode(text.as_bytes());
        prop_assert!(ids.iter().all(|&id| (id as usize) < vocab));
        prop_assert_eq!(cut.decode(&ids), Ok(text.into_bytes()));
    }
}

#[test]
fn every_single_byte_must_have_a_token() {
    for missing in [0, b'a', 0xff] {
        let mut entries = bytes_only();
        entries[usize::from(missing) + 1] = b"longer".to_vec();
        assert_eq!(Tokenizer::from_vocabulary(&entries).unwrap_err(), VocabularyError::MissingByte(missing));
    }
    assert_eq!(Tokenizer::from_vocabulary::<&[u8]>(&[]).unwrap_err(), VocabularyError::MissingByte(0));
    assert_eq!(Tokenizer::world().truncated(256).unwrap_err(), VocabularyError::MissingByte(0xff));
}

#[test]
fn bytes_are_their_own_tokens() {
    let every: Vec<u8> = (0..=u8::MAX).collect();
    let tokenizer = Tokenizer::bytes();
    let ids = tokenizer.encode(&every);
    assert!(ids.iter().copied().eq(0..256) && tokenizer.decode(&ids).unwrap() == every);
    assert_eq!(tokenizer.len(), 256);
    // One more token, and entry 0 is end-of-text alone.
    let mut entries: Vec<Vec<u8>> = every.iter().map(|byte| vec![*byte]).collect();
    entries.push(b"goose".to_vec());
    assert_eq!(Tokenizer::from_vocabulary(&entries).unwrap_err(), VocabularyError::EndOfText(1));
}

#[test]
fn entry_0_is_end_of_text() {
    let mut entries = bytes_only();
    entries[0] = b"<s>".to_vec();
    assert_eq!(Tokenizer::from_vocabulary(&entries).unwrap_err(), VocabularyError::EndOfText(3));
}

#[test]
fn the_last_of_equal_tokens_is_encoded_and_unused_ids_are_unknown() {
    let entries = [bytes_only(), vec![b"ab".to_vec(), Vec::new(), b"ab".to_vec(), b"b".to_vec()]].concat();
    let tokenizer = Tokenizer::from_vocabulary(&entries).unwrap();
    assert_eq!(tokenizer.encode(b"abb"), [259, 260]);
    assert_eq!(tokenizer.decode(&[257, 99]), Ok(b"abb".to_vec()));
    assert_eq!(tokenizer.decode(&[258]), Err(UnknownToken { id: 258, position: 0, len: 261 }));
}
