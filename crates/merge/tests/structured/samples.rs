//! Sample files.

pub(crate) const JSON: &[&str] = &[
    "{}\n",
    "{\n  \"name\": \"a\",\n  \"version\": 1.0,\n  \"list\": [\n    1,\n    2,\n    3\n  ],\n  \"o\": {\n    \"x\": null,\n    \"y\": { \"z\": [true, false] }\n  }\n}\n",
    "// head\n{\n  // a\n  \"a\": 1, // one\n  /* b */ \"b\": 2,\n  \"c\": [ // list\n    { \"id\": 1, \"v\": 1 }, // first\n    { \"id\": 2, \"v\": 2 }\n  ],\n}\n// tail\n",
    "{\"a\":1,\"b\":{\"c\":[1,2,{\"d\":\"\\u00e9\"}]},\"e\":\"x\"}",
    "[\n  {\"name\": \"x\", \"n\": 1},\n  {\"name\": \"y\", \"n\": 2}\n]\n",
    "{\r\n\t\"a\" : 1e5,\r\n\t\"b\" : -0.10\r\n}\r\n",
];

pub(crate) const CRDT: &[&str] = &[
    "{\"$crdt\": {\"types\": {\"/n\": \"counter\", \"/s\": \"set\", \"/m/*\": \"counter\"}}, \"n\": 1, \"s\": [1, 2], \"m\": {\"a\": 1}}\n",
    "{\n  \"$crdt\": {\n    \"types\": {\n      \"/n\": \"counter\",\n      \"/r\": \"register\"\n    }\n  },\n  \"n\": 5,\n  \"r\": {\"value\": 1, \"at\": 3},\n  \"tasks\": [\n    {\"id\": 1, \"done\": false},\n    {\"id\": 2, \"done\": true}\n  ],\n  \"log\": [\n    {\"at\": \"2026-01-01\", \"w\": 1},\n    {\"at\": \"2026-01-02\", \"w\": 2}\n  ]\n}\n",
    "[\"a\", \"b\", \"b\", [1], {\"c\": 1}]",
];

pub(crate) const TOML: &[&str] = &[
    "",
    "# head\nname = \"a\"\n\n[package]\nversion = \"0.1.0\" # v\nauthors = [\n  \"x\",\n  \"y\", # y\n]\n\n[dependencies]\na = \"1\"\nb = { version = \"1\", features = [\"x\"] }\nc.version = \"2\"\n",
    "[[bin]]\nname = \"one\"\npath = 1\n\n[[bin]]\nname = \"two\"\n\n[bin.sub]\nx = 1\n\n[other]\ny = '''\n  a\n'''\n",
    "a = 1\nb = 2.5\nc = 1979-05-27\n[t]\nd = true\n[t.u]\ne = 0xff\n",
];

pub(crate) const YAML: &[&str] = &[
    "a: 1\n",
    "# head\nname: x\non:\n  push:\n    branches: [main, 'r/*'] # where\nsteps:\n  - id: 1\n    run: |\n      a\n       b\n  - id: 2 # two\n    run: >-\n      c\nempty:\nlast: {a: 1, b: [2]}\n",
    "---\n- a\n- b:\n    c: 1\n  d: \"q\" # q\n- - 1\n  - 2\n-\n  e: 'x'\n",
    "list:\n- 1\n- 2\n# about m\nm:\n    k: plain\n      more\n    n: ~\n",
    "a:\r\n  b: 1\r\n  c: 2\r\n",
];
