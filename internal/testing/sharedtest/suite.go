// Package sharedtest is the suite that stores of nodes pass which share one store: what
// docs/explanation/consistency.md, docs/explanation/faults.md and docs/explanation/regions.md promise, told black-box. Each
// implementation runs the whole of it by a test of its own:
//
//	func TestShared(t *testing.T) { sharedtest.Run(t, open) }
//
// Most tests run in virtual time, see package bubble. Those of the subjects redis and
// memcached start servers, and skip where there are none. With -short there are fewer
// cases, with WEIR_SOAK=1 in the environment many more, of random seeds.
package sharedtest

import (
	"slices"
	"strings"
	"testing"
)

// Run checks every promise on nodes that newNode opens, each as a subtest
// "subject/promise".
func Run(t *testing.T, newNode New) { RunSome(t, newNode, "/") }

// RunSome is Run of the promises whose name contains one of some words.
func RunSome(t *testing.T, newNode New, words ...string) {
	for _, s := range subjects() {
		t.Run(s.name, func(t *testing.T) {
			for _, p := range s.promises {
				if slices.ContainsFunc(words, func(w string) bool { return strings.Contains(s.name+"/"+p.name, w) }) {
					t.Run(p.name, func(t *testing.T) { p.test(t, newNode) })
				}
			}
		})
	}
}

// Names returns the names of all subtests of [Run], as go test prints them.
func Names() []string {
	var names []string
	for _, s := range subjects() {
		for _, p := range s.promises {
			names = append(names, s.name+"/"+strings.ReplaceAll(p.name, " ", "_"))
		}
	}
	return names
}

// A subject is promises about one thing.
type subject struct {
	name     string
	promises []promise
}

// A promise is a sentence about nodes, and the test of it.
type promise struct {
	name string
	test func(*testing.T, New)
}

func subjects() []subject {
	return []subject{
		{"store", []promise{
			{"decides as one store does", testConformance},
			{"decides as one store does that ends its calls itself", testPromptConformance},
		}},
		{"strict", []promise{
			{"admits exactly the limit", testStrictCount},
			{"remembered refusals change no decision", testRememberedRefusals},
			{"a refused key costs no call", testRefusedKeyCalls},
			{"a refund ends a remembered refusal", testRefundEndsRefusal},
			{"a reload ends a remembered refusal", testReloadEndsRefusal},
			{"coalesced spends are decided one by one", testCoalescedSpends},
		}},
		{"requests", []promise{
			{"limits of two stores are charged all or none", testMixedStores},
			{"limits of every mode are charged all or none", testMixedModes},
			{"limits of every policy are charged all or none", testMixedPolicies},
			{"a request that one limit refuses is decided", testRefusedRequests},
			{"a local limit needs no call", testLocalLimits},
			{"a refused request leaves no trace", testRefusalsLeaveNoTrace},
			{"a refused request leaves no trace on Redis", testRefusalsLeaveNoTraceOnRedis},
		}},
		{"leases", []promise{
			{"a fleet admits the limit and nearly all of it", testLeasedCount},
			{"no fault admits more than the limit", testLeasedFaults},
			{"a crashed node costs what it held", testCrashedNode},
			{"a paused node spends nothing late", testPausedNode},
			{"a node alone spends the whole limit", testWholeLimit},
			{"nodes that are asked by turns spend the whole limit", testTurns},
			{"many at once wait for few fetches", testManyAtOnce},
			{"idle units are returned", testIdleLeases},
			{"held units are spent in an outage", testLeasesInOutage},
			{"every verb counts", testLeasedVerbs},
			{"the table is bounded", testLeaseTable},
			{"a bucket keeps its burst", testLeasedBurst},
			{"a killed node loses a quarter of a second", testKilledNode},
			{"a seldom key fetches for many seconds", testSeldomKeys},
			{"a seldom key holds two lots", testSeldomLots},
			{"seldom keys use their limit", testSeldomLimit},
			{"many units are returned within a second", testManyUnits},
			{"a lease time that is set holds", testLeaseTTL},
			{"a warm decision does not allocate", testWarmAllocations},
		}},
		{"fetches", []promise{
			{"broken connections lose next to nothing", testRepeatedFetches},
			{"repeated fetches admit no more than the limit", testRepeatedFetchCount},
			{"a fetch at the end of a window ends", testFetchAtTheEnd},
			{"stalls lose next to nothing", testStalls},
		}},
		{"returns", []promise{
			{"units are returned once though answers are lost", testReturnedOnce},
			{"late returns stay spent", testLateReturns},
			{"late refunds give nothing", testLateRefunds},
			{"slow returns open no breaker", testSlowReturns},
			{"waiting returns are bounded", testReturnsBound},
		}},
		{"settlement", []promise{
			{"concurrent settlements refund once", testSettlementOnce},
			{"what is settled at once is counted nowhere", testSettlementAtOnce},
			{"a retried settlement refunds once", testRetriedSettlement},
			{"random settlements under faults refund once", testRandomSettlements},
			{"a caller who leaves at a shadow is charged nothing", testShadowError},
			{"undo needs no caller", testUndo},
		}},
		{"eventual", []promise{
			{"a fleet keeps its bound with few calls", testEventualBound},
			{"no fault admits more than the bound", testEventualFaults},
			{"the bound is tight", testEventualCap},
			{"shares of the slack never exceed it", testSlackShares},
			{"the bound holds for long", testEventualRate},
			{"a cold key asks first unless optimistic", testColdKeys},
			{"a repeated push counts once", testRepeatedPushes},
			{"what is refunded before its push is counted comes back", testRefundedPushes},
			{"a lost node keeps its share until the next window", testLostSlack},
			{"credit ends with its window", testCreditEnd},
			{"refunds can be spent again and reach the store", testEventualRefunds},
		}},
		{"permits", []promise{
			{"no more than the limit are taken with few calls", testPermitCount},
			{"no fault hands out more than the limit", testPermitFaults},
			{"one name has one permit", testPermitNames},
			{"idle permits are returned", testIdlePermits},
			{"permits of a crashed node come back when they end", testCrashedNodePermits},
			{"permits of a lost answer are returned", testLostPermits},
			{"a paused node hands out nothing late", testPausedNodePermits},
			{"permits of callers who left are returned", testLatePermits},
			{"a refused request holds no permit", testRefusedPermits},
			{"a limit that does not say leased is strict", testStrictPermits},
			{"reloads lose no permit", testPermitReloads},
			{"a lowered count holds as holders finish", testPermitCountReloads},
		}},
		{"outages", []promise{
			{"each limit is decided by its policy", testPolicies},
			{"shares add up to the limit and are paid back", testShares},
			{"decisions keep their budget and soon need none", testBreaker},
			{"an outage of one shard degrades its keys alone", testShardOutage},
			{"a key that the store rejects opens no breaker", testBadKey},
			{"one failed call in ten opens no breaker", testTenthFails},
			{"lost answers admit none too many", testLostAnswers},
			{"a share is admitted once in an outage", testShareOnce},
			{"a share is admitted once whatever runs beside it", testShareRaces},
			{"an empty debt is not paid", testEmptyDebt},
			{"a debt is paid once though answers are lost", testPaidOnce},
			{"forced costs and refunds count once though answers are lost", testOwedOnce},
			{"refunds in an outage are not lost", testOutageRefunds},
			{"after random outages the store has counted what was admitted", testRandomOutages},
			{"a store may be out at the start", testStartInOutage},
			{"a store that is busy at the start opens no breaker", testBusyStart},
		}},
		{"deadlines", []promise{
			{"no deadline of a caller changes a decision or opens a breaker", testDeadlines},
			{"a caller whose deadline ends gets its own error", testCallerError},
			{"a stalled store is found by calls whose callers left", testDeadlinesInStall},
			{"a stall is bounded in goroutines and time", testStallBound},
			{"calls of one request have one budget", testOneBudget},
			{"no deadline of any verb opens a breaker", testVerbDeadlines},
		}},
		{"reloads", []promise{
			{"random reloads admit no more than the largest limit", testRandomReloads},
			{"reloads of the mode lose count of nothing", testModeReloads},
			{"units return at the price they were charged", testReloadPrice},
			{"refunds after a reload fill a bucket at most", testReloadRefund},
			{"a lost fetch stays spent after a reload", testReloadLostFetch},
			{"a raised count holds at once", testReloadLeases},
			{"a lowered count holds within a second", testReloadLongLeases},
		}},
		{"clocks", []promise{
			{"a suspended node spends nothing late", testSuspend},
			{"a suspended node hands out no permit late", testSuspendPermits},
			{"random suspends admit no more than the limit", testRandomSuspends},
		}},
		{"nodes", []promise{
			{"a node that returns spends no whole burst", testNodeChanges},
			{"a node that renews late spends no whole burst", testLateRenewals},
		}},
		{"bounds", []promise{
			{"goroutines on many nodes overdraw no limit", testManyGoroutines},
			{"no span of a period admits more than decisions state", testAtMost},
			{"a sliding window holds in every span", testNeverMore},
		}},
		{"simulation", []promise{
			{"every scenario keeps its bound and uses its limit", testSimulation},
			{"nodes use nearly all of a window", testWindowUse},
		}},
		{"regions", []promise{
			{"regions keep their bound", testRegionsBound},
			{"regions cut off from the start admit their parts", testRegionsCutAtStart},
			{"nodes of a region report by turns", testRegionTurns},
			{"every verb counts for all regions", testRegionVerbs},
			{"a flood of keys leaves room for later ones", testRegionFlood},
			{"a reset reaches every region", testRegionsForget},
			{"a cost above a region's part never passes", testRegionCosts},
			{"names of regions are checked", testRegionOptions},
			{"regions cut off near the limit keep the bound to the unit", testRegionsCut},
			{"no fault between regions admits more than the bound", testRegionFaults},
			{"a repeated report counts once", testRegionReports},
			{"a lost store admits once more what it had counted", testRegionStoreLost},
			{"no deadline of a caller changes a decision between regions", testRegionDeadlines},
			{"regions with other clocks keep the bound in each window", testRegionClocks},
			{"a clock that is set admits the limit once more at most", testRegionClockSteps},
			{"a charge counts in the window that charged it", testRegionTurnOfWindow},
			{"a region is added", testRegionAdded},
			{"a region is removed", testRegionRemoved},
		}},
		{"memcached", []promise{
			{"a store that only counts decides every mode", testCountingStore},
			{"one server of two out degrades its keys alone", testMemcachedServers},
			{"limits that it cannot keep open no breaker", testMemcachedLimits},
			{"a lack of connections opens no breaker", testMemcachedConnections},
		}},
		{"redis", []promise{
			{"a flood of keys is bounded and counted", testFlood},
			{"a reset forgets what the node holds", testForget},
			{"a reset reaches every node within a second", testForgetNodes},
			{"a fleet keeps its limits", testRedisFleet},
			{"what was spent is spent under other algorithms and periods", testForms},
			{"nodes that just started spend the whole limit", testRedisTurns},
			{"a fleet keeps its permits", testRedisPermits},
			{"strict decisions are linearizable", testLinear},
			{"strict decisions are linearizable through Sentinels", testLinearSentinel},
			{"strict decisions are linearizable when connections are cut", testLinearCut},
			{"strict decisions are linearizable while a slot of a cluster moves", testLinearMoved},
			{"strict decisions are linearizable over restarts with what was appended", testLinearRestart},
			{"a killed server costs no time and exactness returns", testRedisKilled},
			{"no deadline of a caller changes a decision or opens a breaker", testRedisDeadlines},
			{"broken connections lose next to nothing", testRedisFetches},
			{"stalls lose next to nothing", testRedisStalls},
			{"regions keep their bound", testRedisRegions},
			{"a lost server admits once more what it had counted", testRedisRegionLost},
		}},
	}
}
