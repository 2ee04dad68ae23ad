//! What those who run expressions give them: declared values, variables that are expressions, whom to ask.

use std::{rc::Rc, sync::Arc};

use k3_cel::{
    Authorizer, Bindings, Check, Decision, DeclType, Entries, Environment, EvalError, ListKind,
    ObjectDeclType, OpaqueType, PER_CALL_LIMIT, Program, ResourceCheck, Shape, Target, Value, Variables,
};
use parking_lot::Mutex;
use serde_json::{Value as Json, json};

fn run(environment: &Environment, source: &str, bindings: &Bindings<'_>) -> Result<Json, String> {
    let program = Program::compile(environment, source).map_err(|error| error.to_string())?;
    let value = program
        .evaluate(bindings, PER_CALL_LIMIT)
        .result
        .map_err(|error| error.to_string())?;
    value.to_json().map_err(|error| error.to_string())
}

#[test]
fn declared_values_are_read_by_their_declaration() {
    let list = |kind| DeclType::list(Shape::String.into(), kind, 9);
    let entry = ObjectDeclType::default()
        .field("k", Shape::String)
        .field("v", Shape::Int);
    let keyed = DeclType::list(
        DeclType::object(entry),
        ListKind::Map(Arc::from(["k".to_owned()])),
        9,
    );
    let object = ObjectDeclType::default()
        .field("namespace", Shape::String)
        .field("a-b.c/d", Shape::Int)
        .field("time", Shape::Timestamp)
        .field("day", Shape::Date)
        .field("span", Shape::Duration)
        .field("bytes", Shape::Bytes)
        .field("number", Shape::Double)
        .field("either", Shape::IntOrString)
        .field("atomic", list(ListKind::Atomic))
        .field("set", list(ListKind::Set))
        .field("keyed", keyed)
        .field("absent", Shape::String);
    let decl = DeclType::object(object).named("self");
    let environment = Environment::new()
        .variable("self", decl.clone())
        .variable("other", decl.clone());
    let json = json!({
        "namespace": "n", "a-b.c/d": 5, "time": "2023-05-06T07:08:09Z", "day": "2023-05-06", "span": "1h30m", "bytes": "YWI=",
        "number": 3, "either": 7, "atomic": ["a", "b"], "set": ["a", "b"], "keyed": [{"k": "x", "v": 1}, {"k": "y", "v": 2}],
        "absent": null, "unknown": 1,
    });
    let other = json!({"atomic": ["b", "a"], "set": ["b", "a"], "keyed": [{"k": "y", "v": 2}, {"k": "x", "v": 1}], "either": "7%"});
    let bindings = Bindings::new()
        .json("self", &json, &decl)
        .json("other", &other, &decl);
    for source in [
        "self.__namespace__ == 'n' && self.a__dash__b__dot__c__slash__d == 5",
        "self.time.getHours() == 7 && self.day.getMonth() == 4 && self.span == duration('90m') && self.bytes == b'ab'",
        "self.number == 3.0 && type(self.number) == double && type(self.either) == int && type(other.either) == string",
        "self.atomic != other.atomic && self.set == other.set && self.keyed == other.keyed",
        "self.atomic + other.atomic == ['a', 'b', 'b', 'a'] && (self.set + other.set).size() == 2 && (self.set + ['c']).size() == 3",
        "(self.keyed + other.keyed).size() == 2 && self.keyed.exists(e, e.k == 'y' && e.v == 2)",
        "!has(self.absent) && has(self.set) && !has(other.span) && type(self) == map",
    ] {
        assert_eq!(
            run(&environment, source, &bindings),
            Ok(Json::Bool(true)),
            "{source}"
        );
    }
    assert_eq!(
        run(&environment, "self.absent == 'a'", &bindings),
        Err("no such key: absent".to_owned())
    );
    assert!(
        run(&environment, "self.unknown == 1", &bindings)
            .is_err_and(|error| error.contains("undefined field 'unknown'"))
    );
}

#[test]
fn what_may_be_absent_is_optional() {
    let decl = DeclType::from(Shape::Int);
    let environment = Environment::new()
        .variable("self", decl.clone())
        .variable("oldSelf", Shape::Optional(Arc::new(decl.clone())));
    let five = json!(5);
    let first = Bindings::new()
        .json("self", &five, &decl)
        .value("oldSelf", Value::optional(None));
    let second = first
        .clone()
        .value("oldSelf", Value::optional(Some(Value::Int(4))));
    let rule = "!oldSelf.hasValue() || self > oldSelf.value()";
    assert_eq!(run(&environment, rule, &first), Ok(Json::Bool(true)));
    assert_eq!(run(&environment, rule, &second), Ok(Json::Bool(true)));
    assert_eq!(run(&environment, "oldSelf.orValue(9)", &second), Ok(json!(4)));
    assert!(
        Program::compile(&environment, rule)
            .is_ok_and(|program| program.uses("oldSelf") && !program.uses("other"))
    );
}

#[test]
fn variables_run_once_and_only_if_asked_for() {
    let own = |fields: ObjectDeclType| {
        Environment::new()
            .variable("object", Shape::Dyn)
            .variable("variables", DeclType::object(fields))
    };
    let first =
        Program::compile(&own(ObjectDeclType::new("v")), "object.list.map(x, x * 2)").expect("it compiles");
    let fields = ObjectDeclType::new("v").field("a", DeclType::from(first.result_type()));
    let second = Program::compile(&own(fields.clone()), "variables.a.size() + variables.a.size()")
        .expect("it compiles");
    let fields = fields
        .field("b", Shape::Int)
        .field("c", Shape::Dyn)
        .field("d", Shape::Dyn);
    let failing = Program::compile(&own(ObjectDeclType::new("v")), "object.nope").expect("it compiles");
    let object = json!({"list": [1, 2, 3]});
    let names = vec![
        ("a", Ok(&first)),
        ("b", Ok(&second)),
        ("c", Ok(&failing)),
        ("d", Err(EvalError::new("why"))),
    ];
    let variables = Variables::new(names);
    let bindings = Bindings::new()
        .json("object", &object, &Shape::Dyn.into())
        .lazy("variables", Rc::clone(&variables) as _);
    let environment = own(fields);
    assert_eq!(
        run(&environment, "true || variables.c", &bindings),
        Ok(Json::Bool(true))
    );
    assert_eq!(variables.take_cost(), 0);
    assert_eq!(
        run(&environment, "variables.b == 6 && has(variables.a)", &bindings),
        Ok(Json::Bool(true))
    );
    let cost = variables.take_cost();
    assert!(cost > 0);
    assert_eq!(
        run(&environment, "variables.b + variables.b == 12", &bindings),
        Ok(Json::Bool(true))
    );
    assert_eq!(variables.take_cost(), 0, "they have run already");
    assert_eq!(
        run(&environment, "variables.c", &bindings),
        Err("composited variable \"c\" fails to evaluate: no such key: nope".to_owned())
    );
    assert_eq!(
        run(&environment, "variables.d", &bindings),
        Err("composited variable \"d\" fails to compile: why".to_owned())
    );
}

/// Writes down what it is asked, and allows to get.
#[derive(Default)]
struct CallRecorder(Mutex<Vec<String>>);

impl Authorizer for CallRecorder {
    fn authorize(&self, check: &Check<'_>) -> Decision {
        let target = match check.target {
            Target::Path(path) => path.to_owned(),
            Target::Resource(it) => format!(
                "{}/{}/{}/{}/{}",
                it.group, it.resource, it.subresource, it.namespace, it.name
            ),
        };
        let line = format!("{:?} {} {target}", check.service_account, check.verb);
        self.0.lock().push(line);
        Decision {
            allowed: check.verb == "get",
            reason: "r".to_owned(),
            error: None,
        }
    }
}

#[test]
fn expressions_ask_what_is_allowed() {
    let environment = Environment::new()
        .variable("authorizer", Shape::Opaque(OpaqueType::Authorizer))
        .variable(
            "authorizer.requestResource",
            Shape::Opaque(OpaqueType::ResourceCheck),
        );
    let book = Arc::new(CallRecorder::default());
    let check = ResourceCheck {
        group: "g".into(),
        resource: "r".into(),
        ..ResourceCheck::default()
    };
    let bindings = Bindings::new()
        .value("authorizer", Value::authorizer(Arc::clone(&book) as _))
        .value(
            "authorizer.requestResource",
            Value::resource_check(Arc::clone(&book) as _, check),
        );
    for source in [
        "authorizer.path('/healthz').check('get').allowed()",
        "!authorizer.group('apps').resource('deployments').subresource('scale').namespace('n').name('x').check('delete').allowed()",
        "authorizer.serviceAccount('ns', 'sa').group('').resource('pods').check('get').reason() == 'r'",
        "!authorizer.requestResource.check('get').errored() && authorizer.requestResource.check('get').error() == ''",
    ] {
        assert_eq!(
            run(&environment, source, &bindings),
            Ok(Json::Bool(true)),
            "{source}"
        );
    }
    assert_eq!(
        run(
            &environment,
            "authorizer.path(' ').check('get').allowed()",
            &bindings
        ),
        Err("path must not be empty".to_owned())
    );
    let asked = book.0.lock().join("\n");
    let expected = "None get /healthz\nNone delete apps/deployments/scale/n/x\nSome((\"ns\", \"sa\")) get /pods///\n\
                    None get g/r///\nNone get g/r///";
    assert_eq!(asked, expected);
    let program =
        Program::compile(&environment, "authorizer.path('/x').check('get').allowed()").expect("it compiles");
    assert_eq!(program.evaluate(&bindings, PER_CALL_LIMIT).cost, 350_003);
}

#[test]
fn changes_to_objects_are_messages() {
    let environment = Environment::new()
        .with_patch_types()
        .variable("object", Shape::Dyn);
    let object = json!({"n": 1});
    let bindings = Bindings::new().json("object", &object, &Shape::Dyn.into());
    let apply = "Object{spec: Object.spec{replicas: object.n + 1, ?absent: optional.none(), list: [Object.spec.list{a: 'b'}]}}";
    assert_eq!(
        run(&environment, apply, &bindings),
        Ok(json!({"spec": {"replicas": 2, "list": [{"a": "b"}]}}))
    );
    let patch = "[JSONPatch{op: 'add', path: '/a/' + jsonpatch.escapeKey('b/c~d'), value: {'x': object.n}}]";
    assert_eq!(
        run(&environment, patch, &bindings),
        Ok(json!([{"op": "add", "path": "/a/b~1c~0d", "value": {"x": 1}}]))
    );
    let wrong = run(&environment, "JSONPatch{op: 1}", &bindings).expect_err("an operation is a text");
    assert!(
        wrong.contains("expected type of field 'op' is 'string' but provided type is 'int'"),
        "{wrong}"
    );
}

#[test]
fn maps_can_have_a_value_for_all_other_keys() {
    let inner = DeclType::map(Shape::Dyn.into(), 9);
    let environment = Environment::new().variable("m", DeclType::map(inner, 9));
    let given = || -> Result<Value<'static>, k3_cel::EvalError> {
        let mut known = Entries::default();
        known.insert(Value::text("x"), Value::semver("1.2.3")?)?;
        let mut map = Entries::default();
        map.insert(Value::text("a"), known.into())?;
        Ok(map.with_default(Entries::default().into()).into())
    };
    let bindings = Bindings::new().value("m", given().expect("texts are keys"));
    let source = "m['a'].x.isLessThan(semver('2.0.0')) && !has(m['b'].x) && m.b.size() == 0";
    assert_eq!(run(&environment, source, &bindings), Ok(Json::Bool(true)));
}

#[test]
fn programs_are_shared_between_threads() {
    fn shared<T: Send + Sync + Clone>() {}
    shared::<Program>();
    shared::<Environment>();
}
