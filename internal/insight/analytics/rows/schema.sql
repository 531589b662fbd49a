-- The tables of analytics. A migration that was released is not changed any more.
-- {serial}, {bytes} and {rows} are the dialect's.

-- migration 1
CREATE TABLE limits (
    id {serial}, domain TEXT NOT NULL, rule TEXT NOT NULL, name TEXT NOT NULL, algorithm TEXT NOT NULL,
    allowance BIGINT NOT NULL, period_ms BIGINT NOT NULL, burst BIGINT NOT NULL,
    first BIGINT NOT NULL, last BIGINT NOT NULL,
    UNIQUE (domain, rule, name, algorithm, allowance, period_ms, burst));
CREATE TABLE sources (
    id {serial}, source TEXT NOT NULL UNIQUE, first BIGINT NOT NULL, last BIGINT NOT NULL,
    events BIGINT NOT NULL, highest BIGINT NOT NULL, late BIGINT NOT NULL);
CREATE TABLE seen (
    source_id BIGINT NOT NULL, block BIGINT NOT NULL, last BIGINT NOT NULL, bits {bytes} NOT NULL,
    PRIMARY KEY (source_id, block)) {rows};
CREATE TABLE rollups (
    grain BIGINT NOT NULL, at BIGINT NOT NULL, limit_id BIGINT NOT NULL, node TEXT NOT NULL,
    outcome TEXT NOT NULL, n BIGINT NOT NULL,
    PRIMARY KEY (grain, at, limit_id, node, outcome)) {rows};
CREATE TABLE clients (grain BIGINT NOT NULL, at BIGINT NOT NULL, limit_id BIGINT NOT NULL, client TEXT NOT NULL,
    allowed BIGINT NOT NULL, refused BIGINT NOT NULL, soft BIGINT NOT NULL, borrowed BIGINT NOT NULL,
    delayed BIGINT NOT NULL, shadow BIGINT NOT NULL, estimated BIGINT NOT NULL, degraded BIGINT NOT NULL,
    other BIGINT NOT NULL, units BIGINT NOT NULL, decisive BIGINT NOT NULL, early BIGINT NOT NULL,
    records BIGINT NOT NULL, seconds BIGINT NOT NULL, without BIGINT NOT NULL, merged BIGINT NOT NULL,
    answers BIGINT NOT NULL, ok BIGINT NOT NULL, redirect BIGINT NOT NULL, denied BIGINT NOT NULL,
    client_error BIGINT NOT NULL, server_error BIGINT NOT NULL, total_ms BIGINT NOT NULL,
    longest_ms BIGINT NOT NULL, least BIGINT NOT NULL, peak BIGINT NOT NULL, peak_minute BIGINT NOT NULL,
    retry BIGINT NOT NULL, delay BIGINT NOT NULL, first_us BIGINT NOT NULL, last_us BIGINT NOT NULL,
    every BIGINT NOT NULL, watched BIGINT NOT NULL, plain BIGINT NOT NULL, users BIGINT NOT NULL,
    agents BIGINT NOT NULL, paths BIGINT NOT NULL, addresses BIGINT NOT NULL, user_bits BIGINT NOT NULL,
    agent_bits BIGINT NOT NULL, path_bits BIGINT NOT NULL, address_bits BIGINT NOT NULL, source TEXT NOT NULL,
    address TEXT NOT NULL, network TEXT NOT NULL, method TEXT NOT NULL, host TEXT NOT NULL,
    path TEXT NOT NULL, username TEXT NOT NULL, tier TEXT NOT NULL, agent TEXT NOT NULL,
    PRIMARY KEY (grain, at, limit_id, client)) {rows};
CREATE INDEX clients_client ON clients (grain, client, limit_id, at);
CREATE TABLE sketches (
    grain BIGINT NOT NULL, at BIGINT NOT NULL, limit_id BIGINT NOT NULL, kind TEXT NOT NULL,
    bits {bytes} NOT NULL,
    PRIMARY KEY (grain, at, limit_id, kind)) {rows};
CREATE TABLE words (
    at BIGINT NOT NULL, limit_id BIGINT NOT NULL, kind TEXT NOT NULL, word TEXT NOT NULL,
    allowed BIGINT NOT NULL, refused BIGINT NOT NULL, shadow BIGINT NOT NULL, delayed BIGINT NOT NULL,
    PRIMARY KEY (at, limit_id, kind, word)) {rows};
CREATE TABLE arrivals (
    id {serial}, at BIGINT NOT NULL, limit_id BIGINT NOT NULL, client TEXT NOT NULL, outcome TEXT NOT NULL,
    every BIGINT NOT NULL, cut BIGINT NOT NULL, n BIGINT NOT NULL, data {bytes} NOT NULL);
CREATE INDEX arrivals_at ON arrivals (limit_id, at);
CREATE INDEX arrivals_age ON arrivals (at);
CREATE TABLE losses (
    source_id BIGINT NOT NULL, at BIGINT NOT NULL,
    dropped BIGINT NOT NULL, discarded BIGINT NOT NULL, rollups BIGINT NOT NULL, failed BIGINT NOT NULL,
    PRIMARY KEY (source_id, at)) {rows};
CREATE TABLE late (at BIGINT NOT NULL PRIMARY KEY, n BIGINT NOT NULL);
CREATE TABLE labels (
    id {serial}, domain TEXT NOT NULL, rule TEXT NOT NULL, name TEXT NOT NULL, client TEXT NOT NULL,
    label TEXT NOT NULL, reason TEXT NOT NULL, who TEXT NOT NULL, at BIGINT NOT NULL, expires BIGINT NOT NULL);
CREATE INDEX labels_client ON labels (client);

-- migration 2
CREATE TABLE rollups_2 (
    grain BIGINT NOT NULL, at BIGINT NOT NULL, limit_id BIGINT NOT NULL, node TEXT NOT NULL,
    region TEXT NOT NULL, outcome TEXT NOT NULL, n BIGINT NOT NULL,
    PRIMARY KEY (grain, at, limit_id, node, region, outcome)) {rows};
INSERT INTO rollups_2 (grain, at, limit_id, node, region, outcome, n)
    SELECT grain, at, limit_id, node, '', outcome, n FROM rollups;
DROP TABLE rollups;
ALTER TABLE rollups_2 RENAME TO rollups;
ALTER TABLE sources ADD COLUMN region TEXT NOT NULL DEFAULT '';
CREATE TABLE latencies (
    grain BIGINT NOT NULL, at BIGINT NOT NULL, limit_id BIGINT NOT NULL, node TEXT NOT NULL,
    region TEXT NOT NULL, bits {bytes} NOT NULL,
    PRIMARY KEY (grain, at, limit_id, node, region)) {rows};

-- migration 3
CREATE TABLE answered (
    grain BIGINT NOT NULL, at BIGINT NOT NULL, limit_id BIGINT NOT NULL, node TEXT NOT NULL,
    region TEXT NOT NULL, bits {bytes} NOT NULL,
    PRIMARY KEY (grain, at, limit_id, node, region)) {rows};

-- migration 4, with indexes for what is deleted by its age
CREATE TABLE IF NOT EXISTS requests (
    grain BIGINT NOT NULL, at BIGINT NOT NULL, domain TEXT NOT NULL, node TEXT NOT NULL, region TEXT NOT NULL,
    outcome TEXT NOT NULL, n BIGINT NOT NULL,
    PRIMARY KEY (grain, at, domain, node, region, outcome)) {rows};
CREATE INDEX IF NOT EXISTS seen_last ON seen (last);
CREATE INDEX IF NOT EXISTS losses_at ON losses (at);
CREATE INDEX IF NOT EXISTS labels_expires ON labels (expires);
CREATE INDEX IF NOT EXISTS sources_last ON sources (last);
CREATE INDEX IF NOT EXISTS limits_last ON limits (last);

-- migration 5: the rows of clients by columns, see blocks.go, which are written from those that there are
CREATE TABLE IF NOT EXISTS client_blocks (
    grain BIGINT NOT NULL, at BIGINT NOT NULL, limit_id BIGINT NOT NULL, version BIGINT NOT NULL,
    state BIGINT NOT NULL,
    PRIMARY KEY (grain, at, limit_id)) {rows};
CREATE TABLE IF NOT EXISTS client_columns (
    grain BIGINT NOT NULL, at BIGINT NOT NULL, limit_id BIGINT NOT NULL, name TEXT NOT NULL,
    bits {bytes} NOT NULL,
    PRIMARY KEY (grain, at, limit_id, name)) {rows};

-- migration 6: clients are in their rows alone, and nobody labels them
DROP TABLE client_blocks;
DROP TABLE client_columns;
DROP TABLE labels;
