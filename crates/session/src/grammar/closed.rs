//! Leaves out properties that a schema does not name.
//!
//! JSON Schema allows any others unless `additionalProperties` says something. A model that may write them often does, and
//! does not end. A text of the closed schema is one of the given schema, too.

use serde_json::{Map, Value};

/// Keywords that say which other properties there may be, or how many.
const OPEN: [&str; 5] =
    ["additionalProperties", "patternProperties", "unevaluatedProperties", "propertyNames", "minProperties"];

/// Closes the objects of a schema that name properties. A schema that describes one object in several places stays as it
/// is: each place would exclude the properties of the others.
pub(super) fn close(schema: &mut Value) {
    if !is_combined(schema) {
        visit(schema);
    }
}

fn is_combined(value: &Value) -> bool {
    match value {
        Value::Object(fields) => {
            let is_partial = ["$ref", "anyOf", "oneOf"].iter().any(|keyword| fields.contains_key(*keyword));
            let is_both = is_partial && fields.contains_key("properties");
            is_both || fields.contains_key("allOf") || fields.values().any(is_combined)
        }
        Value::Array(items) => items.iter().any(is_combined),
        _ => false,
    }
}

fn visit(schema: &mut Value) {
    let Value::Object(fields) = schema else { return };
    let is_open = OPEN.iter().any(|keyword| fields.contains_key(*keyword));
    let names_properties =
        fields.get("properties").is_some_and(|named| named.as_object().is_some_and(|n| !n.is_empty()));
    for (keyword, inner) in fields.iter_mut() {
        match (keyword.as_str(), inner) {
            ("properties" | "$defs" | "definitions", Value::Object(schemas)) => schemas.values_mut().for_each(visit),
            ("items" | "additionalProperties", schema) => visit(schema),
            ("anyOf" | "oneOf" | "prefixItems", Value::Array(schemas)) => schemas.iter_mut().for_each(visit),
            _ => {}
        }
    }
    if names_properties && !is_open && names_required(fields) {
        fields.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
}

/// Whether every property that has to be there is named: another one could not be there.
fn names_required(fields: &Map<String, Value>) -> bool {
    let required = fields.get("required").and_then(Value::as_array).into_iter().flatten();
    let named = fields.get("properties").and_then(Value::as_object);
    required.filter_map(Value::as_str).all(|name| named.is_some_and(|named| named.contains_key(name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn closed(mut schema: Value) -> Value {
        close(&mut schema);
        schema
    }

    #[test]
    fn objects_that_name_properties_are_closed() {
        let a = || json!({ "properties": { "a": {} } });
        let closed_a = || json!({ "properties": { "a": {} }, "additionalProperties": false });
        assert_eq!(closed(a()), closed_a());
        assert_eq!(
            closed(json!({ "items": a(), "$defs": { "b": a() } })),
            json!({ "items": closed_a(), "$defs": { "b": closed_a() } })
        );
        assert_eq!(
            closed(json!({ "anyOf": [a(), { "type": "null" }] })),
            json!({ "anyOf": [closed_a(), { "type": "null" }] })
        );
    }

    #[test]
    fn open_and_combined_objects_stay() {
        let properties = json!({ "a": {} });
        for schema in [
            json!({ "type": "object" }),
            json!({ "properties": {} }),
            json!({ "properties": properties, "additionalProperties": true }),
            json!({ "properties": properties, "patternProperties": {} }),
            json!({ "properties": properties, "required": ["b"] }),
            json!({ "properties": properties, "minProperties": 2 }),
            json!({ "properties": properties, "anyOf": [{ "properties": { "b": {} } }] }),
            json!({ "properties": properties, "$ref": "#/$defs/b", "$defs": { "b": { "properties": properties } } }),
            json!({ "properties": { "b": { "allOf": [{ "properties": properties }] } } }),
            json!({ "const": { "properties": properties } }),
            json!(true),
        ] {
            assert_eq!(closed(schema.clone()), schema);
        }
    }
}
