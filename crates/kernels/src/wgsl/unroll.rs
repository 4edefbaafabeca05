//! Loops that are written out. WGSL has no attribute for that, and an array lives in registers only where its indices
//! are constants.
//!
//! `for (var i = 0u; i < ROWS; i++) {    // unroll` becomes its body, once for each value, with `i` a constant. The bound
//! is an expression of constants (see [`super::expression`]); the loop ends at the first line that closes it at its own
//! indentation. A loop without its marker computes the same.

use super::expression::{Expression, Scope};
use super::{Text, TextError};

/// Most lines of a text with its loops written out.
const MOST_LINES: usize = 200_000;

/// Writes out every marked loop.
///
/// # Errors
/// A marked loop that cannot be read, or a text that grows too long; the error points at the loop.
pub(crate) fn unroll(text: &Text, scope: &dyn Scope) -> Result<Text, TextError> {
    let lines: Vec<(&str, (usize, usize))> = text.lines().collect();
    let mut out = Text::new(text.files().to_vec());
    write(&lines, scope, &mut out)?;
    Ok(out)
}

fn write(lines: &[(&str, (usize, usize))], scope: &dyn Scope, out: &mut Text) -> Result<(), TextError> {
    let mut rest = lines;
    while let Some(((line, at), after)) = rest.split_first() {
        let Some(code) = line.trim_end().strip_suffix("// unroll") else {
            out.push(line, *at);
            rest = after;
            continue;
        };
        let fail = |why: String| out.error(*at, format!("cannot unroll: {why}"));
        let (name, bound) = head(code).ok_or_else(|| fail("not 'for (var i = 0u; i < N; i++) {'".to_owned()))?;
        let bound =
            Expression::parse(bound).ok_or_else(|| fail("the bound is no expression of constants".to_owned()))?;
        let times = bound.number(scope).map_err(|why| fail(format!("the bound: {why}")))?;
        let indent = &line[..line.len() - line.trim_start().len()];
        let close = after.iter().position(|(l, _)| l.strip_prefix(indent) == Some("}"));
        let close = close.ok_or_else(|| fail("the loop has no end at its own indentation".to_owned()))?;
        for i in 0..times {
            if out.len() > MOST_LINES {
                return Err(out.error(*at, format!("cannot unroll: the text has more than {MOST_LINES} lines")));
            }
            out.push(&format!("{indent}{{ const {name} = {i}u;"), *at);
            write(&after[..close], scope, out)?;
            out.push(after[close].0, after[close].1);
        }
        rest = &after[close + 1..];
    }
    Ok(())
}

/// The counter and the bound of a loop.
fn head(code: &str) -> Option<(&str, &str)> {
    let (name, rest) = code.trim().strip_prefix("for (var ")?.split_once(" = 0u; ")?;
    let bound = rest.strip_prefix(name)?.strip_prefix(" < ")?.strip_suffix("++) {")?.strip_suffix(name)?;
    Some((name, bound.strip_suffix("; ")?))
}

#[cfg(test)]
mod tests {
    use super::super::expression::{Lookup, Value};
    use super::*;
    use std::sync::Arc;

    struct N;

    impl Scope for N {
        fn lookup(&self, name: &str) -> Option<Lookup<'_>> {
            (name == "N").then_some(Lookup::Value(Value::Number(2)))
        }
    }

    fn unrolled(text: &str) -> Result<String, TextError> {
        let mut given = Text::new(vec![Arc::from("test")]);
        text.lines().enumerate().for_each(|(i, line)| given.push(line, (0, i + 1)));
        unroll(&given, &N).map(|out| out.text().to_owned())
    }

    #[test]
    fn marked_loops_are_written_out_and_others_stay() {
        let text = "for (var i = 0u; i < 3u * N / 3u; i++) {    // unroll\n    \
                        for (var j = 0u; j < 1u; j++) { // unroll\n        f(i, j);\n    }\n\
                    }\n\
                    for (var i = 0u; i < N; i++) {\n}\n";
        let want = "{ const i = 0u;\n    { const j = 0u;\n        f(i, j);\n    }\n}\n\
                    { const i = 1u;\n    { const j = 0u;\n        f(i, j);\n    }\n}\n\
                    for (var i = 0u; i < N; i++) {\n}\n";
        assert_eq!(unrolled(text).unwrap(), want);
    }

    #[test]
    fn what_cannot_be_written_out_is_an_error_with_its_line() {
        for wrong in [
            "while true { // unroll",
            "for (var i = 0u; i < M; i++) { // unroll\n}",
            "for (var i = 0u; i < 3u ^ N; i++) { // unroll\n}",
            "for (var i = 0u; i < 2u; i++) { // unroll",
            "for (var i = 0u; i < 1000000u; i++) { // unroll\nf();\n}",
        ] {
            let message = unrolled(&format!("\n{wrong}\n")).unwrap_err().to_string();
            assert!(message.starts_with("test.wgsl:2: cannot unroll"), "{message}");
        }
    }
}
