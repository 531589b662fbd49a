package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/metrics"
	"github.com/weirlimit/weir/overlay"
)

// overlayMetrics counts bans and overrides.
func (s *Server) overlayMetrics() metrics.Overlay {
	bans, overrides := s.overlay.Count()
	return metrics.Overlay{Bans: bans, Overrides: overrides}
}

// openOverlay lays bans and overrides over what the node decides by. They are kept
// where all nodes see them if there is such a place, else in a file if there is one.
func (s *Server) openOverlay() error {
	var board weir.Board
	switch {
	case s.store.fleet && s.conf.Overlay != "":
		return errors.New("--overlay: this store keeps bans and overrides for all nodes: leave the file out")
	case s.conf.Overlay != "":
		file, err := overlay.OpenFile(s.conf.Overlay)
		if err != nil {
			return fmt.Errorf("--overlay: %w", err)
		}
		board = file
	default:
		board = s.store.board
	}
	if !s.store.fleet && s.store.shared != nil {
		s.log.Info("bans and overrides are this node's own: this store keeps none")
	}
	var err error
	s.overlay, err = overlay.New(context.Background(), overlay.Options{
		Rules: s.decidedBy(), Board: board, Check: s.store.check, Logger: s.log,
	})
	s.rules.overlay = s.overlay
	return err
}
