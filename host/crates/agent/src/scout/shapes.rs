//! The host reads reports and facts strictly, and publishes the schemas of the facts.

use act_core::event::schema;
use act_reports::{FactsA, FactsB};

#[test]
fn the_schemas_of_the_facts_are_published() {
    // EVENT-8
    schema::holds::<FactsA>("scout-a-facts");
    schema::holds::<FactsB>("scout-b-facts");
}

mod report_a {
    use act_reports::ReportA;
    use act_reports::report_a::example;
    use serde_json::{Value, json};

    #[test]
    fn unknown_and_missing_fields_and_words_are_refused_by_name() {
        let refused = |change: fn(&mut Value)| {
            let mut report = example();
            change(&mut report);
            ReportA::parse(&report.to_string()).unwrap_err().to_string()
        };
        assert!(refused(|r| r["extra"] = json!(1)).contains("unknown field `extra`"));
        assert!(refused(|r| r["risk_zones"][0]["why"] = json!("")).contains("unknown field `why`"));
        assert!(
            refused(|r| r["risk_zones"][0]["risk_level"] = json!("huge"))
                .contains("unknown variant `huge`")
        );
        assert!(
            refused(|r| {
                r["change_boundaries"]["safe_slices"][0].as_object_mut().unwrap().remove("order");
            })
            .contains("missing field `order`")
        );
    }
}

mod report_b {
    use act_reports::ReportB;
    use act_reports::report_b::example;
    use serde_json::{Value, json};

    #[test]
    fn unknown_and_missing_fields_and_words_are_refused_by_name() {
        let refused = |change: fn(&mut Value)| {
            let mut report = example();
            change(&mut report);
            ReportB::parse(&report.to_string()).unwrap_err().to_string()
        };
        assert!(refused(|r| r["test"]["skip"] = json!([])).contains("unknown field `skip`"));
        assert!(
            refused(|r| r["build"]["detected_system"] = json!("bazel"))
                .contains("unknown variant `bazel`")
        );
        assert!(
            refused(|r| {
                r["build"]["commands"].as_object_mut().unwrap().remove("install");
            })
            .contains("missing field `install`")
        );
    }
}
