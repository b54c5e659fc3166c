use super::*;
use crate::custom_section::pack;

const SCOUT: &str = r#"{"kind":"scout","name":"scout-a","version":"0.1.0","about":"Maps a repository.",
        "needs":[{"grant":"repo.read","why":"to read it"}],"report":{"type":"object"}}"#;
const TOOL: &str = r#"{"kind":"tool","name":"file-tools","version":"0.1.0","about":"Edits.","needs":[],
        "limits":{"wall_ms":1000},
        "tools":[{"name":"edit_line","description":"Edits.","parameters":{"type": "object"}}]}"#;

fn parse(text: &str) -> Result<Manifest, ManifestError> {
    let component = pack(b"\0asm\x0d\0\x01\0", text.as_bytes());
    Manifest::of(&component, &Sections::of(&component)?)
}

fn wrong_field(text: &str) -> &'static str {
    match parse(text) {
        Err(ManifestError::Field { field, .. }) => field,
        other => panic!("{other:?}"),
    }
}

#[test]
fn both_kinds_are_read_with_their_schemas_as_written() {
    let scout = parse(SCOUT).unwrap();
    assert_eq!((scout.kind, scout.name.as_str()), (Kind::Scout, "scout-a"));
    assert_eq!(scout.report.as_deref(), Some(r#"{"type":"object"}"#));
    let tool = parse(TOOL).unwrap();
    assert_eq!(tool.limits.wall_ms, Some(1000));
    assert_eq!(tool.tools[0].parameters, r#"{"type": "object"}"#);
}

// CAPABILITY-6, security line 44: what is approved is what the model is told.
#[test]
fn text_that_a_terminal_would_not_show_is_refused() {
    for hidden in ["\\u001b]0;obey me\\u0007", "\\u202e", "\\u200b", "\\u0000", "\\udb40\\udc41"] {
        for place in ["Maps", "object"] {
            let text = SCOUT.replacen(place, &format!("{place}{hidden}"), 1);
            if text != SCOUT {
                assert!(matches!(parse(&text), Err(ManifestError::Hidden(_))), "{text}");
            }
        }
        let text = TOOL.replacen("\"about\":\"", &format!("\"about\":\"{hidden}"), 1);
        assert_ne!(text, TOOL);
        assert!(matches!(parse(&text), Err(ManifestError::Hidden(_))), "{text}");
    }
}

// CAPABILITY-6
#[test]
fn an_unknown_field_is_refused_at_every_level() {
    let add = |text: &str, after: &str| text.replacen(after, &format!(r#"{after}"more":1,"#), 1);
    for text in [
        add(SCOUT, "{"),
        add(SCOUT, r#""needs":[{"#),
        add(TOOL, r#""limits":{"#),
        add(TOOL, r#""tools":[{"#),
    ] {
        let Err(ManifestError::Json(why)) = parse(&text) else { panic!("{text}") };
        assert!(why.contains("unknown field `more`"), "{why}");
    }
}

// CAPABILITY-46
#[test]
fn a_suggested_limit_that_nobody_could_mean_is_refused() {
    for (limits, field) in [
        (r#"{"memory_mb":9007199254740992}"#, "limits.memory_mb"),
        (r#"{"memory_mb":4097}"#, "limits.memory_mb"),
        (r#"{"memory_mb":0}"#, "limits.memory_mb"),
        (r#"{"wall_ms":3600001}"#, "limits.wall_ms"),
    ] {
        let text = TOOL.replacen(r#"{"wall_ms":1000}"#, limits, 1);
        assert_eq!(wrong_field(&text), field, "{limits}");
    }
}

#[test]
fn a_field_given_twice_is_refused() {
    let twice = SCOUT.replacen('{', r#"{"name":"other","#, 1);
    assert!(matches!(parse(&twice), Err(ManifestError::Json(_))));
}

#[test]
fn names_are_plain_and_bounded() {
    for name in ["", "Scout", "-a", "a b", "a/../b", "a\\u001b", &"a".repeat(41)] {
        assert_eq!(wrong_field(&SCOUT.replace("scout-a", name)), "name");
    }
    assert_eq!(wrong_field(&TOOL.replace("edit_line", "edit-line")), "tools.name");
}

#[test]
fn tools_belong_to_tool_components_and_reports_to_scouts() {
    assert_eq!(wrong_field(&TOOL.replace(r#""tool","name""#, r#""scout","name""#)), "tools");
    assert_eq!(wrong_field(&SCOUT.replace(r#""scout","name""#, r#""tool","name""#)), "tools");
    assert_eq!(wrong_field(&TOOL.replacen('{', r#"{"report":{},"#, 1)), "report");
}

// CAPABILITY-6
#[test]
fn a_limit_of_nothing_is_refused() {
    let limit = |text: &str| wrong_field(&TOOL.replace(r#"{"wall_ms":1000}"#, text));
    assert_eq!(limit(r#"{"wall_ms":0}"#), "limits.wall_ms");
    assert_eq!(limit(r#"{"memory_mb":0}"#), "limits.memory_mb");
}

#[test]
fn schemas_are_objects() {
    assert_eq!(wrong_field(&TOOL.replace(r#"{"type": "object"}"#, "true")), "tools.parameters");
    assert_eq!(wrong_field(&SCOUT.replace(r#"{"type":"object"}"#, "[]")), "report");
}

// CAPABILITY-6
#[test]
fn what_narrows_a_need_belongs_to_its_grant() {
    let with = |need: &str| SCOUT.replace(r#"{"grant":"repo.read","why":"to read it"}"#, need);
    for (need, field) in [
        (r#"{"grant":"http","why":"x"}"#, "needs.origins"),
        (r#"{"grant":"env","why":"x"}"#, "needs.names"),
        (r#"{"grant":"llm","why":"x","paths":["src"]}"#, "needs.paths"),
        (r#"{"grant":"llm","why":"x","level":"coarse"}"#, "needs.level"),
    ] {
        assert_eq!(wrong_field(&with(need)), field, "{need}");
    }
    for need in [
        r#"{"grant":"env","why":"x","names":["ANTHROPIC_API_KEY"]}"#,
        r#"{"grant":"http","why":"x","origins":["https://*.example.com"]}"#,
        r#"{"grant":"repo.read","why":"x","paths":["../x"]}"#,
    ] {
        assert!(matches!(parse(&with(need)), Err(ManifestError::Json(_))), "{need}");
    }
    let http =
        r#"{"grant":"http","why":"x","origins":["https://api.example.com"],"methods":["POST"]}"#;
    assert_eq!(parse(&with(http)).unwrap().needs[0].origins.len(), 1);
}

#[test]
fn a_manifest_is_bounded() {
    let long = format!("{SCOUT}{}", " ".repeat(MAX_BYTES));
    assert!(matches!(parse(&long), Err(ManifestError::TooLarge(_))));
}
