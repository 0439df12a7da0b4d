//! A broker that is talked to in secret.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cmwq_nats::{Broker, ConnectOptions, ErrorKind};

use crate::support::{Server, broker_or_skip, not_tested, noting, queue, runs};

const CERTIFICATE: &str = "[req]\ndistinguished_name = name\nx509_extensions = more\nprompt = no\n\
    [name]\nCN = localhost\n\
    [more]\nsubjectAltName = IP:127.0.0.1\nbasicConstraints = critical,CA:FALSE\n";

/// A key, and a certificate that it has signed itself. `None`: there is no `openssl` to make them.
fn certificate(folder: &Path) -> Option<[PathBuf; 2]> {
    let [config, key, made] = ["config", "key.pem", "made.pem"].map(|name| folder.join(name));
    fs::write(&config, CERTIFICATE).unwrap();
    let mut command = Command::new("openssl");
    command.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-config"]);
    command.arg(&config).arg("-keyout").arg(&key).arg("-out").arg(&made);
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status().ok()?;
    assert!(status.success(), "openssl: {status}");
    Some([key, made])
}

#[test]
fn tls_is_spoken_with_whom_the_certificate_names() {
    let folder = tempfile::tempdir().unwrap();
    let Some([key, made]) = certificate(folder.path()) else {
        return not_tested("no openssl here");
    };
    let [key_text, made_text] = [&key, &made].map(|path| path.display().to_string());
    let more = ["--tls", "--tlskey", &key_text, "--tlscert", &made_text].map(str::to_owned);
    let server = broker_or_skip!(Server::told(more.to_vec()));
    let connect = |options: ConnectOptions| {
        let broker = Broker::builder(&format!("tls://{}", server.address()));
        broker.options(options.require_tls(true)).connect()
    };
    let error = connect(ConnectOptions::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "nobody vouches for it: {error}");
    let broker = connect(ConnectOptions::new().add_root_certificates(made)).unwrap();
    let shared = queue(&broker, "secret");
    let (note, seen) = runs();
    let _serving = noting(shared.serve(), note).start().unwrap();
    let _ = shared.queue("f", "whispered").unwrap();
    assert_eq!(seen.next(), "whispered");
}
