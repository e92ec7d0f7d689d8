//! Kafka's own processes, run from the jars that its makers publish: one node that is its own controller,
//! and where a leader has to move, a second.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use super::{Server, free_port, program};
use crate::clients::{self, Got};
use crate::tls::Authority;

const CLIENT: &str = "kafka_client.py";
const CLUSTER: &str = "b3V0aGF1bC10ZXN0cy0wMQ";
const SAYS_VERSION: &str = "org.apache.kafka.common.utils.AppInfoParser";
/// Bounds a test that fails.
const PATIENCE: Duration = Duration::from_secs(60);
/// Of the user `shop`, on the port for logins.
pub const PASSWORD: &str = "right";

/// A broker and controller.
pub struct Kafka {
    server: Server,
    pub ports: Ports,
    pub authority: Authority,
}

/// Besides the one where whoever comes may do everything.
#[derive(Clone, Copy)]
pub struct Ports {
    pub login: u16,
    pub tls: u16,
    /// With TLS and a login by SCRAM-SHA-512, as managed clusters have it.
    pub both: u16,
    /// Who asks here is told to go to `front`, where a test may put a network of its own.
    pub behind: u16,
    pub front: u16,
    controller: u16,
}

/// The broker that the cases share which leave it as it is. It ends with the last of them: what a static
/// holds for ever would outlive the tests.
static SHARED: Mutex<Weak<Kafka>> = Mutex::new(Weak::new());

impl Kafka {
    pub fn shared() -> Arc<Self> {
        let mut shared = SHARED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        shared.upgrade().unwrap_or_else(|| {
            let kafka = Arc::new(Self::start());
            *shared = Arc::downgrade(&kafka);
            kafka
        })
    }

    pub fn start() -> Self {
        let ports = Ports {
            login: free_port(),
            tls: free_port(),
            both: free_port(),
            behind: free_port(),
            front: free_port(),
            controller: free_port(),
        };
        let (folder, authority) = (tempfile::tempdir().expect("a temporary folder"), Authority::default());
        let identity = authority.identity(&["localhost"]);
        std::fs::write(folder.path().join("server.pem"), identity.key + &identity.cert)
            .expect("the folder can be written");
        let server = Server::start_in(folder, move |folder, port| {
            node(folder, &(settings(1, folder, ports.controller) + &listeners(port, ports)))
        });
        println!("Kafka {}", version(&server));
        Self { server, ports, authority }
    }

    /// Another broker, of the number 2, in the same cluster.
    pub fn join(&self) -> Server {
        let controller = self.ports.controller;
        Server::start(move |folder, port| {
            let text = settings(2, folder, controller)
                + &format!("process.roles=broker\nlisteners=PLAINTEXT://127.0.0.1:{port}\n");
            node(folder, &text)
        })
    }

    pub fn client(&self, words: &[&str]) -> String {
        clients::run(CLIENT, &[&[self.address().as_str()], words].concat())
    }

    /// Lets clients that call themselves so send this many bytes a second, by Kafka's own tool.
    pub fn limit(&self, client_id: &str, bytes_a_second: u32) {
        let mut tool = java("kafka.admin.ConfigCommand");
        tool.args(["--bootstrap-server", &self.address(), "--alter", "--entity-type", "clients"]);
        tool.args([
            "--entity-name",
            client_id,
            "--add-config",
            &format!("producer_byte_rate={bytes_a_second}"),
        ]);
        let output = tool.output().expect("Java starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// A topic of three partitions.
    pub fn create(&self, topic: &str) {
        self.client(&["create", topic, "3"]);
    }

    pub fn read(&self, topic: &str) -> Vec<Got> {
        clients::read(CLIENT, &[&self.address(), "read", topic])
    }

    pub fn count(&self, topic: &str) -> usize {
        self.client(&["count", topic]).trim().parse().expect("a number")
    }

    /// Where Kafka's own client puts so many keys.
    pub fn partitions(&self, topic: &str, keys: usize) -> BTreeMap<String, u32> {
        serde_json::from_str(&self.client(&["partitions", topic, &keys.to_string()])).expect("JSON")
    }
}

/// The last that a broker says before it serves: its port is open before that.
fn version(server: &Server) -> String {
    let patience = Instant::now() + PATIENCE;
    loop {
        let log = server.log();
        if let Some((_, version)) = log.lines().find_map(|line| line.split_once("Kafka version: ")) {
            return version.to_owned();
        }
        assert!(Instant::now() < patience, "the broker does not say its version:\n{log}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Of the first node.
fn listeners(port: u16, ports: Ports) -> String {
    let Ports { login, tls, both, behind, front, controller } = ports;
    let open = format!("PLAINTEXT://127.0.0.1:{port},LOGIN://127.0.0.1:{login}");
    let secured = format!("TLS://localhost:{tls},BOTH://localhost:{both}");
    format!(
        "process.roles=broker,controller\n\
         listeners={open},{secured},BEHIND://127.0.0.1:{behind},CONTROLLER://127.0.0.1:{controller}\n\
         advertised.listeners={open},{secured},BEHIND://127.0.0.1:{front}\n"
    )
}

fn settings(number: u32, folder: &Path, controller: u16) -> String {
    let (data, pem) = (folder.join("data"), folder.join("server.pem"));
    let scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;";
    format!(
        "node.id={number}\nlog.dirs={}\n\
         controller.quorum.voters=1@127.0.0.1:{controller}\ncontroller.listener.names=CONTROLLER\n\
         listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT,TLS:SSL,\
         BOTH:SASL_SSL,BEHIND:PLAINTEXT\n\
         inter.broker.listener.name=PLAINTEXT\n\
         sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512\n\
         listener.name.login.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule \
         required user_shop=\"{PASSWORD}\";\n\
         listener.name.login.scram-sha-256.sasl.jaas.config={scram}\n\
         listener.name.login.scram-sha-512.sasl.jaas.config={scram}\n\
         listener.name.both.sasl.enabled.mechanisms=SCRAM-SHA-512\n\
         listener.name.both.scram-sha-512.sasl.jaas.config={scram}\n\
         ssl.keystore.type=PEM\nssl.keystore.location={}\n\
         authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n\
         allow.everyone.if.no.acl.found=true\nsuper.users=User:ANONYMOUS\n\
         message.max.bytes=2000000\nauto.create.topics.enable=true\n\
         offsets.topic.replication.factor=1\ntransaction.state.log.replication.factor=1\n\
         transaction.state.log.min.isr=1\ngroup.initial.rebalance.delay.ms=0\n\
         offsets.topic.num.partitions=1\ntransaction.state.log.num.partitions=1\n\
         num.network.threads=1\nnum.io.threads=2\nlog.cleaner.dedupe.buffer.size=4194304\n\
         broker.heartbeat.interval.ms=500\nbroker.session.timeout.ms=3000\n\
         replica.lag.time.max.ms=2000\n",
        data.display(),
        pem.display(),
    )
}

/// A node, whose data is laid out before it starts for the first time.
fn node(folder: &Path, text: &str) -> Command {
    let file = folder.join("server.properties");
    std::fs::write(&file, text).expect("the folder can be written");
    if !folder.join("data/meta.properties").exists() {
        let user = |mechanism| format!("{mechanism}=[name=shop,password={PASSWORD}]");
        let mut format = java("kafka.tools.StorageTool");
        format.args(["format", "--cluster-id", CLUSTER, "--config"]).arg(&file);
        format.args(["--add-scram", &user("SCRAM-SHA-256"), "--add-scram", &user("SCRAM-SHA-512")]);
        let output = format.output().expect("Java starts");
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
    }
    let mut command = java("kafka.Kafka");
    command.arg(file).current_dir(folder);
    command
}

fn java(class: &str) -> Command {
    let mut command = Command::new(program("java"));
    command
        .args(["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
        .arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
        .arg(format!("-Dorg.slf4j.simpleLogger.log.{SAYS_VERSION}=info"))
        .arg("-classpath")
        .arg(jars().join("*"))
        .arg(class);
    command
}

fn jars() -> PathBuf {
    let jars = clients::tools().join("kafka/libs");
    assert!(jars.is_dir(), "{} is missing; run  cargo xtask test  once, which fetches it", jars.display());
    jars
}

impl Deref for Kafka {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl DerefMut for Kafka {
    fn deref_mut(&mut self) -> &mut Server {
        &mut self.server
    }
}
