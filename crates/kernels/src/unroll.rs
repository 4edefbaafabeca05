//! Loops that are written out. WGSL has no attribute for that, and an array lives in registers only where its indices
//! are constants.
//!
//! `for (var i = 0u; i < ROWS; i++) {    // unroll` becomes its body, once for each value, with `i` a constant. The bound
//! is a literal or a `const` whose value is one; the loop ends at the first line that closes it at its own indentation.
//! A loop without its marker computes the same.

use crate::SpecialiseError;
use crate::specialise::Specialised;
use std::collections::HashMap;

type Line<'a> = (&'a str, (&'static str, usize));

/// Writes out every marked loop.
///
/// # Errors
/// A marked loop that cannot be read; the error points at its line.
pub(crate) fn unroll(text: &Specialised) -> Result<Specialised, SpecialiseError> {
    let lines: Vec<Line<'_>> = text.text.lines().zip(text.origin.iter().copied()).collect();
    let constants = lines.iter().filter_map(|(line, _)| constant(line)).collect();
    let mut out = Specialised::default();
    write(&lines, &constants, &mut out)?;
    Ok(out)
}

fn write(lines: &[Line<'_>], constants: &HashMap<&str, u32>, out: &mut Specialised) -> Result<(), SpecialiseError> {
    let mut rest = lines;
    while let Some(((line, at), after)) = rest.split_first() {
        let Some(code) = line.trim_end().strip_suffix("// unroll") else {
            out.push(line, *at);
            rest = after;
            continue;
        };
        let fail = |why: &str| SpecialiseError::at(*at, why.to_owned());
        let (name, bound) = head(code).ok_or_else(|| fail("cannot unroll: not 'for (var i = 0u; i < N; i++) {'"))?;
        let times = number(bound).or_else(|| constants.get(bound).copied());
        let times = times.ok_or_else(|| fail("cannot unroll: the bound is no literal and no const that is one"))?;
        let indent = &line[..line.len() - line.trim_start().len()];
        let close = after.iter().position(|(l, _)| l.strip_prefix(indent) == Some("}"));
        let close = close.ok_or_else(|| fail("cannot unroll: the loop has no end at its own indentation"))?;
        for i in 0..times {
            out.push(&format!("{indent}{{ const {name} = {i}u;"), *at);
            write(&after[..close], constants, out)?;
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

/// Name and value of a constant that is a literal.
fn constant(line: &str) -> Option<(&str, u32)> {
    let (name, rest) = line.strip_prefix("const ")?.split_once(": u32 = ")?;
    Some((name, number(rest.split_once(';')?.0)?))
}

fn number(literal: &str) -> Option<u32> {
    literal.strip_suffix('u')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unrolled(text: &str) -> Result<String, SpecialiseError> {
        let mut given = Specialised::default();
        text.lines().enumerate().for_each(|(i, line)| given.push(line, ("test.wgsl", i + 1)));
        unroll(&given).map(|out| {
            assert_eq!(out.text.lines().count(), out.origin.len());
            out.text
        })
    }

    #[test]
    fn marked_loops_are_written_out_and_others_stay() {
        let text = "const N: u32 = 2u;\n\
                    for (var i = 0u; i < N; i++) {    // unroll\n    \
                        for (var j = 0u; j < 1u; j++) { // unroll\n        f(i, j);\n    }\n\
                    }\n\
                    for (var i = 0u; i < N; i++) {\n}\n";
        let want = "const N: u32 = 2u;\n\
                    { const i = 0u;\n    { const j = 0u;\n        f(i, j);\n    }\n}\n\
                    { const i = 1u;\n    { const j = 0u;\n        f(i, j);\n    }\n}\n\
                    for (var i = 0u; i < N; i++) {\n}\n";
        assert_eq!(unrolled(text).unwrap(), want);
    }

    #[test]
    fn what_cannot_be_written_out_is_an_error_with_its_line() {
        for wrong in [
            "while true { // unroll",
            "for (var i = 0u; i < M; i++) { // unroll\n}",
            "for (var i = 0u; i < 2u; i++) { // unroll",
        ] {
            let message = unrolled(&format!("\n{wrong}\n")).unwrap_err().to_string();
            assert!(message.starts_with("test.wgsl:2: cannot unroll"), "{message}");
        }
    }
}
