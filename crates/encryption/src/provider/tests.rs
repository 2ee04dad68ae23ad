use base64::{Engine, engine::general_purpose::STANDARD};

use super::*;

const PATH: &str = "/registry/core/secrets/default/a";
const VALUE: &[u8] = br#"{"kind":"Secret"}"#;

fn key(name: &str, length: u8) -> NamedKey {
    NamedKey {
        name: name.to_owned(),
        secret: Zeroizing::new((0..length).collect()),
    }
}

fn other_key(name: &str) -> NamedKey {
    NamedKey {
        name: name.to_owned(),
        secret: Zeroizing::new(vec![7; 32]),
    }
}

fn stored(prefix: &str, data: &str) -> Vec<u8> {
    [prefix.as_bytes(), &STANDARD.decode(data).unwrap()].concat()
}

fn value(is_stale: bool) -> Decrypted {
    Decrypted::Value {
        value: VALUE.to_vec(),
        is_stale,
    }
}

/// What other implementations have encrypted with keys of the bytes 0, 1, 2, ...
#[tokio::test]
async fn decrypts_what_other_implementations_have_encrypted() {
    let cases = [
        (
            ProviderConfiguration::AesGcm(vec![key("k", 16)]),
            AES_GCM,
            "ZGVmZ2hpamtsbW5vYUAlzLVmmsC5bTJz9K9fzk3csJvs8mQURJie8SVNKjzt",
        ),
        (
            ProviderConfiguration::AesGcm(vec![key("k", 24)]),
            AES_GCM,
            "ZGVmZ2hpamtsbW5vkkrQFTzLLALxgodiiJfvnKA9Iz55Q1KJo90i2oApZHA8",
        ),
        (
            ProviderConfiguration::AesGcm(vec![key("k", 32)]),
            AES_GCM,
            "ZGVmZ2hpamtsbW5vMzm1DxeNdKQcMTqLqAAe3z8Zyt0X6iZYwPUuiNDrohEG",
        ),
        (
            ProviderConfiguration::AesCbc(vec![key("k", 16)]),
            AES_CBC,
            "MjM0NTY3ODk6Ozw9Pj9AQWZChYyz3nVjHfGE0M0TLLiIdJL8Xr5VXRgWW64v9lP+",
        ),
        (
            ProviderConfiguration::AesCbc(vec![key("k", 24)]),
            AES_CBC,
            "MjM0NTY3ODk6Ozw9Pj9AQeQVzkwi6FrvS8U2JJXTvfYCqWGyQeVVVo4eQqugcK1p",
        ),
        (
            ProviderConfiguration::AesCbc(vec![key("k", 32)]),
            AES_CBC,
            "MjM0NTY3ODk6Ozw9Pj9AQf4njSEl0dxfpl6qhGl2MUuqsm0lS/XbQ+UDrRpY8mb+",
        ),
    ];
    for (configuration, prefix, data) in cases {
        let provider = Provider::new(&configuration).await;
        let stored = stored(&format!("{prefix}k:"), data);
        assert_eq!(
            provider.decrypt(&stored, PATH).await,
            value(false),
            "{configuration:?}"
        );
        assert!(provider.is_current(&stored));
    }
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

/// The example of the documentation of `NaCl`.
#[test]
fn secretbox_is_that_of_nacl() {
    let key = hex("1b27556473e985d462cd51197a9a46c76009549eac6474f206c4ee0844f68389");
    let nonce = hex("69696ee955b62b73cd62bda875fc73d68219e0036b7a0b37");
    let message = hex(
        "be075fc53c81f2d5cf141316ebeb0c7b5228c52a4c62cbd44b66849b64244ffce5ecbaaf33bd751a1ac728d45e6c61296cdc3c01233561f41d\
         b66cce314adb310e3be8250c46f06dceea3a7fa1348057e2f6556ad6b1318a024a838f21af1fde048977eb48f59ffd4924ca1c60902e52f0a0\
         89bc76897040e082f937763848645e0705",
    );
    let sealed = hex(
        "f3ffc7703f9400e52a7dfb4b3d3305d98e993b9f48681273c29650ba32fc76ce48332ea7164d96a4476fb8c531a1186ac0dfc17c98dce87b4d\
         a7f011ec48c97271d2c20f9b928fe2270d6fb863d51738b48eeee314a7cc8ab932164548e526ae90224368517acfeabd6bb3732bc0e9da9983\
         2b61ca01b6de56244a9e88d5f9b37973f622a43d14a6599b1f654cb45a74e355a5",
    );
    let secretbox = Secretbox::new(&key);
    assert_eq!(secretbox.decrypt(&[nonce, sealed].concat()).unwrap(), message);
}

#[tokio::test]
async fn the_first_key_encrypts_and_all_keys_decrypt() {
    type ProviderConstructor = fn(Vec<NamedKey>) -> ProviderConfiguration;
    let cases: [(ProviderConstructor, &str); 3] = [
        (ProviderConfiguration::Secretbox, SECRETBOX),
        (ProviderConfiguration::AesGcm, AES_GCM),
        (ProviderConfiguration::AesCbc, AES_CBC),
    ];
    for (make, prefix) in cases {
        let old = Provider::new(&make(vec![key("old", 32)])).await;
        let stored = old.encrypt(VALUE, PATH).await.unwrap();
        assert!(stored.starts_with(format!("{prefix}old:").as_bytes()));
        assert!(!stored.windows(VALUE.len()).any(|window| window == VALUE));
        assert_ne!(
            stored,
            old.encrypt(VALUE, PATH).await.unwrap(),
            "nonces are random"
        );
        let both = Provider::new(&make(vec![other_key("new"), key("old", 32)])).await;
        assert_eq!(both.decrypt(&stored, PATH).await, value(true));
        assert!(!both.is_current(&stored));
        let again = both.encrypt(VALUE, PATH).await.unwrap();
        assert_eq!(both.decrypt(&again, PATH).await, value(false));
        assert!(both.is_current(&again));
        // A wrong key, a key that is missing, and data that was cut off.
        for provider in [make(vec![other_key("old")]), make(vec![key("other", 32)])] {
            let provider = Provider::new(&provider).await;
            let Decrypted::Failed(reason) = provider.decrypt(&stored, PATH).await else {
                panic!("{prefix} was decrypted with another key");
            };
            assert!(reason.contains("old"), "{reason}");
        }
        for length in 0..stored.len() {
            let outcome = old.decrypt(&stored[..length], PATH).await;
            assert!(!matches!(outcome, Decrypted::Value { .. }), "{length} bytes");
        }
    }
}

#[tokio::test]
async fn aes_gcm_binds_a_value_to_its_object() {
    let provider = Provider::new(&ProviderConfiguration::AesGcm(vec![key("k", 32)])).await;
    let stored = provider.encrypt(VALUE, PATH).await.unwrap();
    let elsewhere = provider
        .decrypt(&stored, "/registry/core/secrets/default/b")
        .await;
    assert!(matches!(elsewhere, Decrypted::Failed(_)), "{elsewhere:?}");
}
