//! Loops that are written out. WGSL has no attribute for that, and an array lives in registers only where its indices
//! are constants.
//!
//! `for (var i = 0u; i < ROWS; i++) {    // unroll` becomes its body, once for each value, with `i` a constant. The bound
//! is an expression of constants (see [`super::expression`]); the loop ends at the first line that closes it at its own
//! indentation. `// unroll F` writes out F bodies an iteration, as `#pragma unroll F` does: with 1 the loop stays, with as many
//! as there are iterations it is written out whole. A loop without its marker computes the same.

use super::expression::{Expression, Scope};
use super::{Text, TextError};

/// Most lines of a text with its loops written out, and most bytes of them.
const MOST_LINES: usize = 200_000;
const MOST_BYTES: usize = 16 << 20;

/// How deep marked loops may nest.
const MOST_NESTED: usize = 16;

/// Writes out every marked loop.
///
/// # Errors
/// A marked loop that cannot be read, or a text that grows too long; the error points at the loop.
pub(crate) fn unroll(text: &Text, scope: &dyn Scope) -> Result<Text, TextError> {
    let lines: Vec<(&str, (usize, usize))> = text.lines().collect();
    let mut out = Text::new(text.files().to_vec());
    write(&lines, scope, MOST_NESTED, &mut out)?;
    Ok(out)
}

fn write(lines: &[(&str, (usize, usize))], scope: &dyn Scope, nested: usize, out: &mut Text) -> Result<(), TextError> {
    let mut rest = lines;
    while let Some(((line, at), after)) = rest.split_first() {
        let Some((code, factor)) = line.split_once("// unroll").filter(|(_, factor)| is_factor(factor)) else {
            out.push(line, *at);
            rest = after;
            continue;
        };
        let fail = |why: String| out.error(*at, format!("cannot unroll: {why}"));
        let nested = nested.checked_sub(1).ok_or_else(|| fail(format!("more than {MOST_NESTED} loops are nested")))?;
        let (name, bound) = head(code).ok_or_else(|| fail("not 'for (var i = 0u; i < N; i++) {'".to_owned()))?;
        let bound =
            Expression::parse(bound).ok_or_else(|| fail("the bound is no expression of constants".to_owned()))?;
        let times = bound.number(scope).map_err(|why| fail(format!("the bound: {why}")))?;
        let indent = &line[..line.len() - line.trim_start().len()];
        let close = after.iter().position(|(l, _)| l.strip_prefix(indent) == Some("}"));
        let close = close.ok_or_else(|| fail("the loop has no end at its own indentation".to_owned()))?;
        let bodies = match factor.trim() {
            "" => times,
            factor => Expression::parse(factor)
                .ok_or_else(|| "the factor is no expression of constants".to_owned())
                .and_then(|factor| factor.number(scope).map_err(|why| format!("the factor: {why}")))
                .map_err(fail)?,
        };
        let is_whole = bodies == times;
        if !is_whole && (bodies == 0 || times % bodies != 0) {
            return Err(fail(format!("{times} iterations are not shared evenly by {bodies} bodies")));
        }
        if !is_whole {
            out.push(
                &format!("{indent}for (var first_{name} = 0u; first_{name} < {times}u; first_{name} += {bodies}u) {{"),
                *at,
            );
        }
        for i in 0..bodies {
            if out.len() > MOST_LINES || out.text().len() > MOST_BYTES {
                let why = format!("cannot unroll: the text has more than {MOST_LINES} lines, or {MOST_BYTES} bytes");
                return Err(out.error(*at, why));
            }
            let head =
                if is_whole { format!("const {name} = {i}u") } else { format!("let {name} = first_{name} + {i}u") };
            out.push(&format!("{indent}{{ {head};"), *at);
            write(&after[..close], scope, nested, out)?;
            out.push(after[close].0, after[close].1);
        }
        if !is_whole {
            out.push(after[close].0, after[close].1);
        }
        rest = &after[close + 1..];
    }
    Ok(())
}

/// Whether what follows the marker is nothing or a factor, and no prose.
fn is_factor(text: &str) -> bool {
    text.trim().is_empty() || (text.starts_with(' ') && text.split_whitespace().count() == 1)
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
    fn an_unroll_factor_repeats_the_body() {
        let unroll =
            |factor: &str| unrolled(&format!("for (var i = 0u; i < 4u; i++) {{ // unroll {factor}\n    f(i);\n}}\n"));
        let part = "for (var first_i = 0u; first_i < 4u; first_i += 2u) {\n\
                    { let i = first_i + 0u;\n    f(i);\n}\n{ let i = first_i + 1u;\n    f(i);\n}\n}\n";
        assert_eq!(unroll("N").unwrap(), part);
        assert_eq!(unroll("2u*N").unwrap(), unroll("").unwrap());
        let loops = unroll("1u").unwrap();
        assert_eq!(
            loops,
            "for (var first_i = 0u; first_i < 4u; first_i += 1u) {\n{ let i = first_i + 0u;\n    f(i);\n}\n}\n"
        );
        for wrong in ["0u", "3u", "M", "8u"] {
            assert!(unroll(wrong).is_err(), "{wrong}");
        }
        assert_eq!(unrolled("for (var i = 0u; i < 0u; i++) { // unroll\n    f(i);\n}\n").unwrap(), "", "no iteration");
    }

    #[test]
    fn an_impossible_unroll_is_an_error_with_its_line() {
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
